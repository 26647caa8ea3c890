#!/usr/bin/env bash
# Run the cases of one job that ci/gitlab/plan.py made. Keep the evidence below $ASSAY_RUN_DIR: the
# verdict looks for it there. The plan sets all variables that this script reads.
set -euo pipefail
cd "$(dirname "$0")/../.."

export ASSAY_RESULTS=$PWD/results/jobs/$ASSAY_JOB RFM_COLORIZE=n
rm -rf "$ASSAY_RESULTS" # of a job before, where the runner keeps its checkout

# The folder exists from the start: a job whose runner dies leaves this folder and nothing more.
kept=$ASSAY_RUN_DIR/jobs/$ASSAY_JOB/$CI_JOB_ID
mkdir -p "$kept.part"

# Runs also if the job was cancelled. Scratch files of benchmarks are large and prove nothing.
keep() {
    [ -d "$ASSAY_RESULTS" ] || return 0
    (cd "$ASSAY_RESULTS" && find . -path ./scratch -prune -o -type f -size -8192k -print0 |
        tar --null -T - -cf -) | tar -xf - -C "$kept.part"
    mv "$kept.part" "$kept"
}
trap keep EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

make setup
selected=()
for test in $ASSAY_TESTS; do selected+=(-n "$test"); done
.venv/bin/reframe -C "site-config/$SITE/reframe.py" -c reframe -R --mode "$ASSAY_MODE" \
    --system "$ASSAY_PARTITION" "${selected[@]}" \
    --session-extras "pipeline=$ASSAY_PIPELINE,commit=${CI_COMMIT_SHORT_SHA:-unknown}" -r
