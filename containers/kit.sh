#!/usr/bin/env bash
# Inside an image: copy the Python of the suite, and all that it needs, to KIT/.venv.
#
#   kit.sh KIT
#
# Its own loader and libraries start this Python, so it runs on any Linux of the same architecture,
# with another libc or without a Python. Nothing is fetched. ci/setup-venv.sh knows such a .venv.
set -euo pipefail

suite=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
die() {
    echo "kit: $*" >&2
    exit 1
}
[ $# = 1 ] || die "one directory"
venv=$1/.venv from=$suite/.venv
[ -x "$from/bin/python" ] || die "$from has no Python"

# The interpreter behind the environment, its standard library, and where the packages are.
mapfile -t at < <("$from/bin/python" -c '
import os, sys, sysconfig
print(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sep="\n")
print(sysconfig.get_path("purelib"), "python%d.%d" % sys.version_info[:2], sep="\n")')
interpreter=${at[0]} stdlib=${at[1]} packages=${at[2]} name=${at[3]}

mkdir -p "$venv"/{bin,python/bin,python/so,python/lib,"lib/$name"}
cp "$interpreter" "$venv/python/bin/$name"
copy() { # copy FROM TO: without what no run of the suite reads
    mkdir -p "$2"
    tar -C "$1" --exclude=__pycache__ --exclude=./test --exclude=./idlelib --exclude=./ensurepip \
        --exclude='./config-*' --exclude=./site-packages --exclude=./dist-packages -cf - . |
        tar -C "$2" -xf -
}
copy "$stdlib" "$venv/python/lib/$name"
copy "$packages" "$venv/lib/$name/site-packages"

# The libraries of the interpreter and of its modules. Those below site-packages find their own.
libraries=$({ echo "$interpreter" && find "$stdlib" "$packages" -name '*.so'; } |
    { xargs -d "\n" ldd 2>/dev/null || true; } | sed -n 's|.*[[:space:]]\(/[^ ]*\) (0x[0-9a-f]*)$|\1|p' |
    grep -vF "$packages/" | sort -u)
loader=
while read -r each; do
    cp -L "$each" "$venv/python/so/"
    case ${each##*/} in ld-linux* | ld64*) loader=${each##*/} ;; esac
done <<<"$libraries"
[ -n "$loader" ] || die "$interpreter names no loader"

# The environment can be moved: ci/setup-venv.sh writes the one path that is in it.
cat >"$venv/bin/python" <<END
#!/bin/sh
own=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")/python
exec "\$own/so/$loader" --library-path "\$own/so" --argv0 "\$0" "\$own/bin/$name" "\$@"
END
chmod 755 "$venv/bin/python"
ln -s python "$venv/bin/python3"
for each in "$from"/bin/*; do
    [ ! -L "$each" ] || continue
    head -n 1 "$each" | grep -qa '^#!.*/python[0-9.]*$' || continue
    {
        printf '%s\n' '#!/bin/sh' \
            "'''exec' \"\$(dirname \"\$(readlink -f \"\$0\")\")/python\" \"\$0\" \"\$@\"" "' '''"
        tail -n +2 "$each"
    } >"$venv/bin/${each##*/}"
    chmod 755 "$venv/bin/${each##*/}"
done
# The suite itself: a path beside site-packages, in place of the image's.
for each in "$venv/lib/$name/site-packages"/__editable__*.pth; do
    [ ! -e "$each" ] || echo ../../../../src >"$each"
done
(cd "$1" && sha256sum requirements/run.lock pyproject.toml) >"$venv/.assay-kit"
cd "$1"
ci/setup-venv.sh
.venv/bin/python -c 'import ssl, sqlite3, reframe, assay' || die "$venv does not start"
