#!/usr/bin/env bash
# Begin a run: take away the answers of the run before it, and refuse in one line what cannot work.
# It checks SITE, PROFILE and ASSAY_STACK, and refuses results that cannot be written or that another
# run writes. Otherwise it prints the file of the site. Needs no .venv and costs nothing.
set -euo pipefail

cd "$(dirname "$0")/.."
die() { # die EXIT-CODE WORDS: docs/command-line.md
    echo "acceptance: ${*:2}" >&2
    exit "$1"
}

results=${ASSAY_RESULTS:-$PWD/results}
# ReFrame holds this file while it runs. It refuses a second run as well.
if [ -s "$results/.lock" ] && command -v flock >/dev/null; then
    held=0
    flock --shared --nonblock --conflict-exit-code 75 "$results/.lock" true || held=$?
    [ "$held" -ne 75 ] ||
        die 2 "$results: $(sed -n '1s/ *$//p' "$results/.lock") runs here; wait for its end," \
            "or name another directory by ASSAY_RESULTS="
fi
# From here on, no older run is the last one, whatever stops this one before ReFrame gives it a
# session (assay.store.run_folder). The bytes go over the old ones: a full disk would take no others.
if [ -d "$results/reports" ] || [ -d "$results/output" ]; then
    printf '%-119s\n' "a start at $(date '+%Y-%m-%d %H:%M'), no session" 1<>"$results/.lock" || true
    rm -f "$results"/{report.html,junit.xml,metrics.prom}
fi 2>/dev/null

site=${SITE:-local}
config=site-config/$site/reframe.py
if [ ! -f "$config" ]; then
    shopt -s nullglob
    known=({site-config,lab/sites}/*/reframe.py)
    known=("${known[@]%/reframe.py}")
    emulated=lab/sites/$site/reframe.py
    [ -f "$emulated" ] ||
        die 64 "no site '$site': $config does not exist; there are: ${known[*]##*/}"
    config=$emulated
fi
[[ ${PROFILE:-full} =~ ^(smoke|full)$ ]] ||
    die 64 "no profile '$PROFILE': PROFILE=smoke or PROFILE=full"

# A site names its stacks in its file. If it has none, ReFrame finds out after the set-up.
yaml=${config%/*}/assay.yaml
stacks=$([ ! -f "$yaml" ] || sed -n '/^stacks:/,/^[^ #]/s/^  \([a-z0-9-]*\):.*/\1/p' "$yaml" | xargs)
if [ -n "${ASSAY_STACK:-}" ] && [ -n "$stacks" ] && [[ " $stacks " != *" $ASSAY_STACK "* ]]; then
    die 64 "no stack '$ASSAY_STACK' on the site $site: STACK= one of: $stacks"
fi

# ReFrame's local scheduler splits the path of the job script at blanks.
[[ $results != *[[:space:]]* ]] ||
    die 2 "ReFrame runs no jobs below a path with blanks ('$results'):" \
        "name a directory without by ASSAY_RESULTS="
probe=$results/.writable.$$
{ (umask 027 && mkdir -p "$results") && touch "$probe"; } 2>/dev/null ||
    die 2 "$results cannot be written: name a directory that can by ASSAY_RESULTS="
rm -f "$probe"

echo "$config"
