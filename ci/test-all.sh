#!/usr/bin/env bash
# Run all tests on a machine with everything that ci/test-packages.sh and this script can install. A
# skip that a command would remove makes the run red.
#
#   ci/test-all.sh [arguments of pytest]
set -euo pipefail

cd "$(dirname "$0")/.."
# Building the image and a kernel takes minutes of one core. The first tiers leave that core idle.
log=$(mktemp)
nice -n 19 bash -c 'make --no-print-directory image && lab/vcluster/kernel.sh' >"$log" 2>&1 &
image=$!
trap 'rm -f "$log"; kill "$image" 2>/dev/null || true' EXIT

failed=()
ci/test.sh --complete {tests,lab/tests,studies/tests}/{pure,programs} "$@" || failed+=("pure and programs")
if ! wait "$image"; then
    cat "$log" >&2
    failed+=("image or kernel")
fi
# Tests of clusters and containers fill the machine, so they run one at a time.
.venv/bin/python -m pytest --complete {tests,lab/tests}/clusters "$@" || failed+=(clusters)
if [ ${#failed[@]} -gt 0 ]; then
    printf -v list ', %s' "${failed[@]}"
    echo "test-all: failed: ${list:2}" >&2
    exit 1
fi
