#!/usr/bin/env bash
# Install the stack of one site exactly as its lock says, and record where its programs are.
#
#   SITE=debian12 ci/spack-install.sh [arguments of spack install, such as --cache-only]
#
# Never solves anew and never skips a checksum. Writes $ASSAY_SPACK_HOME/env/<site>.<view>.json.
# site-config/<site>/assay.yaml makes the stack from it, so compute nodes need no Spack.
# ci/spack-env.sh lists the variables that it reads. JOBS: number of parallel compilations. GC=1:
# uninstall afterwards what only the build needed, for an image.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/spack-env.sh

spack_site
lock=$SITE_ENV/spack.lock
[ -f "$lock" ] || die "$lock does not exist: make lock SITE=$SITE"
# Spack accepts abbreviations of its options, so only these are let through.
options="--cache-only --no-cache --fail-fast --fake --keep-prefix --keep-stage --verbose"
for argument in "$@"; do
    [[ " $options " == *" $argument "* ]] ||
        die "$argument is not for acceptance; the options of spack install here are: $options"
done
spack_find

if [ -x .venv/bin/python ] && .venv/bin/python ci/spack-check.py --help >/dev/null 2>&1; then
    .venv/bin/python ci/spack-check.py --site "$SITE" || die "the lock does not hold; see above"
fi
fake=
[[ " $* " != *" --fake "* ]] || fake=yes # nothing is built, so nothing is needed
if [ -z "$fake" ] && ! lacks=$(the_spack python ci/spack-lock.py here); then
    while read -r line; do echo "$name: $line" >&2; done <<<"$lacks"
    exit 1
fi

log=$ASSAY_SPACK_HOME/install-$SITE.log
say "installing $lock (log: $log)"
if ! the_spack install --only-concrete ${JOBS:+-j "$JOBS"} "$@" \
    >"$log" 2>&1; then
    grep -E '^==> (Error|Warning)|^Error|error:' "$log" | head -n 5 >&2 || true
    if grep -q 'No space left on device' "$log" ||
        [ "$(df -P -k "$ASSAY_SPACK_HOME" | awk 'NR == 2 {print $4}')" -lt 1024 ]; then
        die "the disk of $ASSAY_SPACK_HOME is full; set ASSAY_SPACK_HOME to a larger one"
    fi
    die "failed: see $log"
fi
# If nothing changed, Spack does not update the views, even if someone has deleted them.
the_spack env view regenerate >>"$log" 2>&1 || die "no view: see $log"
[ -n "$fake" ] || lacks=$(the_spack python ci/spack-lock.py built) || die "$lacks"

[ -z "${GC:-}" ] || the_spack gc -y >>"$log" 2>&1 || die "spack gc failed: see $log"

mkdir -p "$ASSAY_SPACK_HOME/env"
base=/usr/bin:/bin
# A folder of views may hold one that the manifest no longer has.
mapfile -t views < <(sed -n 's#^ *root: \.spack-env/view/\([^ ]*\).*#\1#p' "$SITE_ENV/spack.yaml")
for view in "${views[@]}"; do
    # Use a clean environment: the programs on PATH here are not part of the stack.
    mapfile -t paths < <(env -i HOME=/nonexistent PATH="$base" SPACK_PYTHON="$SPACK_PYTHON" \
        SPACK_DISABLE_LOCAL_CONFIG=1 SPACK_USER_CACHE_PATH="$SPACK_USER_CACHE_PATH" \
        ASSAY_SPACK_HOME="$ASSAY_SPACK_HOME" ASSAY_SPACK_PACKAGES="$ASSAY_SPACK_PACKAGES" \
        "$SPACK_ROOT/bin/spack" --color never -C "$OWN_SCOPE" \
        env activate --sh --with-view "$view" -d "$SITE_ENV" |
        sed -n 's/^export PATH=\(.*\);$/\1/p' | tr ':' '\n' |
        grep -F "$SITE_ENV/.spack-env/view/$view/" |
        while read -r each; do [ ! -d "$each" ] || echo "$each"; done)
    [ ${#paths[@]} -gt 0 ] || die "the view $view has no programs: see $log"
    file=$ASSAY_SPACK_HOME/env/$SITE.$view.json
    lock_tool freeze "$lock" "$SITE" "$view" "${paths[@]}" >"$file.new"
    mv "$file.new" "$file"
    say "wrote $file"
done
