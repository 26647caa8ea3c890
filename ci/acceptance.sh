#!/usr/bin/env bash
# Run the suite on one site and write the report, also where the run failed.
#
#   SITE=local PROFILE=smoke|full ci/acceptance.sh [further arguments of reframe]
#
# PAPER=1 runs only what the figures of a validation are drawn from, and writes those that the run
# can give to the results, in paper/, as PNG, SVG and CSV.
# MAX_HARNESS=15 fails a run of which more than 15 % of the wall time went outside of benchmarks:
# for the suite's own tests; a machine that is fast, or has few programs, is no worse for it.
# Needs .venv (make setup). Ends with 1 when ReFrame or the report did.
set -euo pipefail

cd "$(dirname "$0")/.."
site=${SITE:-local}
config=site-config/$site/reframe.py

if [ ! -f "$config" ]; then
    known=(site-config/*/reframe.py)
    known=("${known[@]#site-config/}")
    echo "acceptance: no site '$site': $config does not exist; there are: ${known[*]%/reframe.py}" >&2
    exit 1
fi
if [[ ! ${PROFILE:-full} =~ ^(smoke|full)$ ]]; then
    echo "acceptance: no profile '$PROFILE': PROFILE=smoke or PROFILE=full" >&2
    exit 1
fi
if [ ! -x .venv/bin/reframe ]; then
    echo "acceptance: .venv has no ReFrame, which needs Python 3.10 or newer:" \
        "type make setup, or PYTHON=/path/to/python3 make setup" >&2
    exit 1
fi

results=${ASSAY_RESULTS:-$PWD/results}
if [[ $results == *[[:space:]]* ]]; then
    # ReFrame's local scheduler splits the path of the job script at blanks.
    echo "acceptance: ReFrame runs no jobs below a path with blanks ('$results'):" \
        "name a directory without by ASSAY_RESULTS=" >&2
    exit 1
fi

arguments=(-C "$config" -c reframe -R --mode "${PAPER:+paper-}${PROFILE:-full}")
[ -t 1 ] || export RFM_COLORIZE=n # no escape sequences in a log
echo "acceptance: reframe ${arguments[*]} -r${*:+ $*}"

begin=$(mktemp)
trap 'rm -f "$begin"' EXIT
run=0
.venv/bin/reframe "${arguments[@]}" "$@" -r &
reframe=$!
# Interrupted, ReFrame cancels its jobs and reports what is done; then the page is written as ever.
# A shell's background job ignores SIGINT, so it is told by SIGTERM.
trap 'kill -TERM "$reframe" 2>/dev/null || true' HUP INT TERM
wait "$reframe" || run=$?
while kill -0 "$reframe" 2>/dev/null; do
    run=0
    wait "$reframe" || run=$?
done

# Without a run report of its own the page would show the run before this one.
if [ -z "$(find "$results/reports" -name 'run-report-*.json' -newer "$begin" 2>/dev/null)" ]; then
    echo "acceptance: failed (reframe ended with $run and wrote no run report to $results/reports:" \
        "nothing ran)" >&2
    exit 1
fi

options=()
[ -z "${MAX_HARNESS:-}" ] || options+=(--max-harness "$MAX_HARNESS")
[ -z "${PAPER:-}" ] || options+=(--figures "$results/paper")
report=0
.venv/bin/assay report "${options[@]}" || report=$?
if [ "$run" -ne 0 ] || [ "$report" -ne 0 ]; then
    echo "acceptance: failed (reframe ended with $run, assay report with $report)" >&2
    exit 1
fi
