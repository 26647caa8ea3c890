#!/usr/bin/env bash
# Solve the lock of one site anew, on purpose, and show what changed: versions and variants.
#
#   SITE=debian12 ci/spack-relock.sh
#
# Type this after a change of spack.yaml, of a file that it includes, of a recipe or of the pins.
# Needs no network once Spack is there. ci/spack-env.sh lists the variables that it reads.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/spack-env.sh

spack_site
spack_find
lock=$SITE_ENV/spack.lock
before=$(mktemp)
trap 'rm -f "$before"' EXIT
if [ -f "$lock" ]; then
    cp "$lock" "$before"
else
    echo '{"concrete_specs": {}}' >"$before"
fi

log=$ASSAY_SPACK_HOME/relock-$SITE.log
say "solving $SITE_ENV/spack.yaml (minutes; log: $log)"
if ! the_spack concretize -f >"$log" 2>&1; then
    grep -A 4 '^==> Error' "$log" >&2 || tail -n 5 "$log" >&2
    [ ! -s "$before" ] || cmp -s "$before" "$lock" || cp "$before" "$lock"
    die "no solution; the lock is as it was"
fi
say "before and after:"
lock_tool diff "$before" "$lock"

if [ -x .venv/bin/assay ] && .venv/bin/assay lock --help >/dev/null 2>&1; then
    .venv/bin/assay lock seal --site "$SITE"
else
    say "not sealed: type make venv, then .venv/bin/assay lock seal --site $SITE"
fi
