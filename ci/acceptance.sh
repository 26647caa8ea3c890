#!/usr/bin/env bash
# Run the suite on one site and write the report, even if the run failed.
#
#   SITE=local PROFILE=smoke|full ci/acceptance.sh [further arguments of reframe]
#
# PAPER=000 runs only the tests behind the figures of a validation. PAPER=001 runs those of broadcasts
# for streaming, 002 of nodes with many cores, 003 of two clusters over a long link, 004 of processes
# near their network device, and all runs all of these. It writes the figures that the run can give to
# paper/ in the results, as PNG, SVG and CSV, and index.html with a verdict on each claim. It ends with
# 0 if no case failed and no claim is wrong; its last lines name what could not be measured, and why.
# Needs .venv (make setup). Ends as assay report does: docs/command-line.md has the exit codes.
set -euo pipefail

cd "$(dirname "$0")/.."

# A reader such as `head` may close the pipe. The run goes on, and its exit code stays.
if [ -p /dev/stdout ]; then
    both=
    [ /dev/stdout -ef /dev/stderr ] && both=yes
    exec > >(trap '' HUP INT TERM && exec tee --output-error=warn-nopipe /dev/null)
    [ -z "$both" ] || exec 2>&1
fi

studies=() # the folders that are asked for; the validation is studies/ itself
case ${PAPER:=} in
'') ;;
1 | 000) studies=(studies) ;;
001 | 002 | 003 | 004) studies=("studies/doc$PAPER") ;;
all) studies=(studies studies/doc*) ;;
*)
    echo "acceptance: no document '$PAPER' (DOC, PAPER); there are 000 to 004, and all" >&2
    exit 64
    ;;
esac

config=$(ci/asked.sh)
if [ ! -x .venv/bin/reframe ]; then
    echo "acceptance: .venv has no ReFrame, which needs Python 3.10 or newer:" \
        "type make setup, or PYTHON=/path/to/python3 make setup" >&2
    exit 2
fi

# The folder of this session. The report of another run is never shown as its own.
results=${ASSAY_RESULTS:-$PWD/results}
ASSAY_SESSION=$(date +%Y%m%dT%H%M%S)
while [ -e "$results/output/$ASSAY_SESSION" ]; do ASSAY_SESSION+=-2; done
export ASSAY_SESSION
session=$results/output/$ASSAY_SESSION

arguments=(-C "$config" -c reframe)
for study in "${studies[@]}"; do [ "$study" = studies ] || arguments+=(-c "$study"); done
arguments+=(-R --mode "${PAPER:+paper-}${PROFILE:-full}")
# Leaves out what no list names. An -n of the caller still selects from the rest.
[ -z "$PAPER" ] || arguments+=(-x "^(?!$(sed '/^#/d' "${studies[@]/%//tests.txt}" | paste -sd '|'))")
[ -t 1 ] || export RFM_COLORIZE=n # no escape sequences in a log
# ReFrame 4.10.4 takes the number in RFM_VERBOSE for a text, and ends with a TypeError.
if [[ ${RFM_VERBOSE:-} =~ ^[0-9]$ ]]; then
    for ((n = 0; n < RFM_VERBOSE; n++)); do arguments+=(-v); done
fi
unset RFM_VERBOSE
echo "acceptance: reframe ${arguments[*]} -r${*:+ $*}"

# One machine: a document gives what fits into five minutes, also beside other work.
if [ -n "$PAPER" ] && [ "${SITE:-}" = local ] && [ "${PROFILE:-}" = smoke ]; then
    export ASSAY_DEADLINE=${ASSAY_DEADLINE:-$((240 * ${#studies[@]}))s}
fi

run=0
leash=() # ReFrame ends, and with it its jobs, also if this script is killed by SIGKILL
setpriv --pdeathsig TERM true 2>/dev/null && leash=(setpriv --pdeathsig TERM)
"${leash[@]}" .venv/bin/reframe "${arguments[@]}" "$@" -r &
reframe=$!
# On an interrupt, ReFrame cancels its jobs and reports what is done. The page is then written as
# usual. A background job of a shell ignores SIGINT: the first signal is TERM, the second KILL.
told=
interrupt() {
    kill -"${told:-TERM}" "$reframe" 2>/dev/null || true
    [ -n "$told" ] || echo "acceptance: interrupted: ReFrame ends its jobs; once more kills it" >&2
    told=KILL
}
trap interrupt HUP INT TERM
wait "$reframe" || run=$?
while kill -0 "$reframe" 2>/dev/null; do
    run=0
    wait "$reframe" || run=$?
done

options=(--junit "$results/junit.xml")
[ -z "$PAPER" ] || options+=(--figures "$results/paper" "${studies[@]/%//figures.yaml}")

# A site may have no case of a document. Then its claims are named with what they need.
if [ -n "$PAPER" ] && [ ! -f "$session/session.json" ] && [ $# -eq 0 ] &&
    grep -qs 'not accepted: no case is selected' "$session/reframe.log"; then
    exec .venv/bin/python -m ci.wanted "${options[@]}"
fi

# ReFrame writes its plan there before the first case. A killed run gets a page of what is done.
if [ ! -f "$session/session.json" ]; then
    .venv/bin/assay report --junit "$results/junit.xml" || true # both say that there is no result
    echo "acceptance: failed (reframe ended with $run: nothing ran)" >&2
    exit 2
fi

report=0
if [ -n "$PAPER" ]; then
    # The claims decide: the site does not promise these cases, so that ReFrame ends with 1.
    exec .venv/bin/python -m ci.wanted --session "$session" "${options[@]}"
fi
.venv/bin/assay report --session "$session" "${options[@]}" || report=$?
if [ "$run" -ne 0 ] || [ "$report" -ne 0 ]; then
    echo "acceptance: no PASS (reframe ended with $run, assay report with $report)" >&2
    # A test that is not of Assay may have failed: it is in no verdict.
    [ "$report" -ne 0 ] || report=1
    exit "$report"
fi
