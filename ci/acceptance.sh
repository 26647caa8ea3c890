#!/usr/bin/env bash
# Run the suite on one site and write the report, also where the run failed.
#
#   SITE=local PROFILE=smoke|full ci/acceptance.sh [further arguments of reframe]
#
# Needs .venv (make setup). Ends with 1 when ReFrame or the report did.
set -euo pipefail

cd "$(dirname "$0")/.."
site=${SITE:-local}
config=site-config/$site/reframe.py

if [ ! -f "$config" ]; then
    echo "acceptance: no site '$site': $config does not exist; there are:" \
        "$(find site-config -mindepth 2 -maxdepth 2 -name reframe.py -printf '%P ' |
            sed 's,/reframe\.py,,g')" >&2
    exit 1
fi
if [ ! -x .venv/bin/reframe ]; then
    echo "acceptance: .venv has no ReFrame, which needs Python 3.10 or newer:" \
        "type make setup, or PYTHON=/path/to/python3 make setup" >&2
    exit 1
fi

arguments=(-C "$config" -c reframe -R)
[ -z "${PROFILE:-}" ] || arguments+=(--mode "$PROFILE")
echo "acceptance: reframe ${arguments[*]} -r $*"

run=0 report=0
.venv/bin/reframe "${arguments[@]}" "$@" -r || run=$?
.venv/bin/assay report || report=$?
if [ "$run" -ne 0 ] || [ "$report" -ne 0 ]; then
    echo "acceptance: failed (reframe ended with $run, assay report with $report)" >&2
    exit 1
fi
