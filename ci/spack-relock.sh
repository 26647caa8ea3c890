#!/usr/bin/env bash
# Solve the lock of one site anew, on purpose, and show what changed: versions and variants.
#
#   SITE=debian12 ci/spack-relock.sh
#
# Type this after a change of spack.yaml, of a file that it includes, of a recipe or of the pins.
# Writes spack.lock and its seal, or leaves both as they were. Needs no network once Spack is
# there. ci/spack-env.sh lists the variables that it reads.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/spack-env.sh

spack_site
spack_find
[ -x .venv/bin/python ] || die ".venv/bin/python checks the new lock, and is not there: make venv"
old=$(mktemp -d)
files=(spack.lock spack.lock.seal.yaml)
for file in "${files[@]}"; do
    [ ! -f "$SITE_ENV/$file" ] || cp -p "$SITE_ENV/$file" "$old"
done
restore() {
    for file in "${files[@]}"; do
        if [ -f "$old/$file" ]; then cp -p "$old/$file" "$SITE_ENV"; else rm -f "$SITE_ENV/$file"; fi
    done
    rm -rf "$old"
}
trap restore EXIT

log=$ASSAY_SPACK_HOME/relock-$SITE.log
say "solving $SITE_ENV/spack.yaml (minutes; log: $log)"
if ! the_spack python ci/spack-lock.py solve "$SITE" >"$log" 2>&1; then
    grep -A 4 '^==> Error' "$log" >&2 || tail -n 5 "$log" >&2
    die "no solution; the lock is as it was"
fi
say "before (-) and after (+):"
grep '^[-+] ' "$log" || echo "  the same versions and variants"
.venv/bin/python ci/spack-check.py --site "$SITE" || {
    cp "$SITE_ENV/spack.lock" "$ASSAY_SPACK_HOME/relock-$SITE.lock"
    die "Spack's lock has faults ($ASSAY_SPACK_HOME/relock-$SITE.lock); the lock is as it was"
}
trap 'rm -rf "$old"' EXIT
