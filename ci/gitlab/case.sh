#!/usr/bin/env bash
# Run the cases of one job that ci/gitlab/plan.py made.
#
#   ci/gitlab/case.sh RUN JOB PIPELINE MODE SYSTEM TEST...
#
# RUN is the folder of the run: the evidence is kept below it, where the verdict looks for it. JOB is
# the folder of the job in it, PIPELINE the number of the pipeline that planned. MODE and SYSTEM are
# arguments of reframe, TESTs select the cases.
set -euo pipefail
cd "$(dirname "$0")/../.."

run=$1 job=$2 pipeline=$3 mode=$4 system=$5
shift 5
export ASSAY_RESULTS=$PWD/results/jobs/$job RFM_COLORIZE=n
unset RFM_VERBOSE       # ReFrame 4.10.4 takes its number for a text, and ends with a TypeError
rm -rf "$ASSAY_RESULTS" # of a job before, where the runner keeps its checkout

# The folder exists from the start: a job whose runner dies leaves this folder and nothing more.
kept=$run/jobs/$job/$CI_JOB_ID
mkdir -p "$kept.part"

# Runs also if the job was cancelled: what it left then stays a part, and says so. Scratch files of
# benchmarks are large and prove nothing.
told=
# shellcheck disable=SC2329 # for the trap
keep() {
    [ -z "$told" ] || echo "$told at $(date +%Y%m%dT%H%M%S%z)" >"$kept.part/cancelled"
    [ -d "$ASSAY_RESULTS" ] || return 0
    (cd "$ASSAY_RESULTS" && find . -path ./scratch -prune -o -type f -size -8192k -print0 |
        tar --null -T - -cf -) | tar -xf - -C "$kept.part"
    [ -n "$told" ] || mv "$kept.part" "$kept"
}
trap keep EXIT

# On the first signal, ReFrame cancels its jobs and reports what is done; on the second, it ends.
reframe='' next=TERM
# shellcheck disable=SC2329 # for the traps
interrupt() { # interrupt SIGNAL CODE
    told=$1
    [ -n "$reframe" ] || exit "$2"
    kill -s "$next" "$reframe" 2>/dev/null || true
    next=KILL
}
trap 'interrupt SIGHUP 129' HUP
trap 'interrupt SIGINT 130' INT
trap 'interrupt SIGTERM 143' TERM

# One acceptance of a site runs at a time, so whatever else is there belongs to a job that was ended.
[ "${GITLAB_CI:-}" != true ] || ci/gitlab/end.sh --others

make setup
selected=()
for test in "$@"; do selected+=(-n "$test"); done
# In a session of its own: the runner's signals reach ReFrame once, through this script.
mark=assay.${CI_PROJECT_ID:-0}.$SITE.${CI_PIPELINE_ID:-0}.$CI_JOB_ID
# ReFrame takes SBATCH_JOB_NAME away from sbatch, so the name is an option of its jobs.
named=()
! command -v squeue >/dev/null || named=(-J "job-name=$mark")
ASSAY_MARK=$mark setsid \
    .venv/bin/reframe -C "site-config/$SITE/reframe.py" -c reframe -R --mode "$mode" \
    --system "$system" "${selected[@]}" "${named[@]}" \
    --session-extras "pipeline=$pipeline,commit=${CI_COMMIT_SHORT_SHA:-unknown}" -r &
reframe=$!
code=0
wait "$reframe" || code=$?
while kill -0 "$reframe" 2>/dev/null; do # a signal ended the wait
    code=0
    wait "$reframe" || code=$?
done
# The verdict reads the shared folder: what GitLab does not take is not lost.
[ ! -d "$ASSAY_RESULTS" ] || ci/gitlab/fits.sh artefact "$ASSAY_RESULTS" || true
if [ -n "$told" ]; then
    ci/gitlab/end.sh || true
    [ "$code" -ne 0 ] || code=1
fi
exit "$code"
