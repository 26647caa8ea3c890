#!/usr/bin/env bash
# Judge what the jobs of a pipeline left below $ASSAY_RUN_DIR. results/pipeline/ becomes the artefact.
# Ends as assay report does (docs/command-line.md), and with 2 if GitLab would not keep the whole evidence.
set -euo pipefail
cd "$(dirname "$0")/../.."

run=${ASSAY_RUN_DIR:?nothing was planned, so nothing ran - see the jobs before}
kept=results/pipeline
rm -rf "$kept"
mkdir -p results
cp -r "$run" "$kept"
code=0
.venv/bin/python ci/gitlab/gather.py "$kept" "$kept/report.html" || code=$?
if ! ci/gitlab/fits.sh artefact "$kept"; then
    # GitLab would refuse all of it. Report, promise, run reports and records are the smaller part.
    find "$kept/jobs" -type f ! -name 'run-report-*.json' ! -name 'assay.json' \
        ! -name 'session.json' -delete
    find "$kept/jobs" -type d -empty -delete
    echo "verdict: the artefact has no outputs of programs; they are in $run for 30 days" >&2
    [[ $code != [04] ]] || code=2 # GitLab allows 4
fi
exit "$code"
