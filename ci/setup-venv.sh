#!/usr/bin/env bash
# Make .venv from a lock: pinned, with hashes, and with this checkout in editable form.
#
#   ci/setup-venv.sh [run|studies|dev]    run (default): requirements/run.lock; or requirements/KIND.lock
#
# A second call does nothing unless lock, pyproject.toml, Python or the checkout's path has changed.
set -euo pipefail

die() {
    echo "setup-venv: $*" >&2
    exit 1
}

cd "$(dirname "$0")/.."
kind=${1:-run}
case $kind in
run) locks=(requirements/run.lock) ;;
# The last holds all before it.
studies) locks=(requirements/run.lock requirements/studies.lock) ;;
dev) locks=(requirements/run.lock requirements/studies.lock requirements/dev.lock) ;;
*) die "unknown kind '$kind': run, studies or dev" ;;
esac
lock=${locks[${#locks[@]} - 1]}

content() { # what the environment holds once LOCK is installed
    sha256sum "$1" pyproject.toml
}

# `export` of an image brings an environment with a Python of its own (containers/kit.sh). It needs
# neither a network nor a Python of this machine, only the path of the checkout.
if [ "$kind" = run ] && [ -f .venv/.assay-kit ]; then
    [ "$(content requirements/run.lock)" = "$(cat .venv/.assay-kit)" ] ||
        die "requirements/run.lock or pyproject.toml is not as the image had it, and .venv is of the" \
            "image: restore them, or remove .venv to make one by this machine's Python"
    settings="home = $PWD/.venv/python/bin"$'\n'"include-system-site-packages = false"
    if [ "$settings" != "$(cat .venv/pyvenv.cfg 2>/dev/null)" ]; then
        echo "$settings" >".venv/pyvenv.cfg.$$"
        mv ".venv/pyvenv.cfg.$$" .venv/pyvenv.cfg
        echo "setup-venv: .venv of the image is ready"
    fi
    exit 0
fi

chosen=$(ci/find-python.sh)
version=$("$chosen" -c 'import sys; print(*sys.version_info[:3], sep=".")')

# An environment breaks if its interpreter or its path changes. A change of either remakes it.
home="$version $PWD"
if [ ! -x .venv/bin/python ] || [ "$home" != "$(cat .venv/.assay-home 2>/dev/null)" ]; then
    "$chosen" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$chosen cannot make environments (no ensurepip): install python3-venv," \
            "or type ci/system-stack.sh"
    echo "setup-venv: making .venv with Python $version"
    "$chosen" -m venv --clear .venv || die ".venv could not be made; the lines above say why"
    echo "$home" >.venv/.assay-home
fi

done_already=yes
for each in "${locks[@]}"; do
    [ "$(content "$each")" = "$(cat ".venv/.assay-${each##*/}" 2>/dev/null)" ] || done_already=
done
[ -z "$done_already" ] || exit 0

echo "setup-venv: installing $lock"
# Print one line per package, so that a slow network is visible. Errors go to standard error whole.
show() { sed -n -e 's/^Collecting \([^ ;]*\).*/  \1/p' -e 's/^Installing.*/  unpacking/p'; }
# The lock is whole. pip alone would add what reframe-hpc[no-analytics] leaves out.
.venv/bin/python -m pip install --no-deps --require-hashes --only-binary :all: \
    --disable-pip-version-check -r "$lock" | show ||
    die "pip could not install $lock; the lines above say why (network? proxy? pip's index?)"
# setuptools is in the lock. Nothing is fetched here, so nothing can differ from the lock.
.venv/bin/python -m pip install --no-deps --no-build-isolation --disable-pip-version-check \
    --quiet --editable . || die "this checkout could not be installed into .venv; see above"

for each in "${locks[@]}"; do
    content "$each" >".venv/.assay-${each##*/}"
done
echo "setup-venv: .venv is ready"
