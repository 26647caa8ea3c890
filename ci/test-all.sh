#!/usr/bin/env bash
# All tests on a machine with all that ci/test-packages.sh and this script can bring: a skip that a
# command would mend is red.
#
#   ci/test-all.sh [arguments of pytest]
set -euo pipefail

cd "$(dirname "$0")/.."
# The image takes minutes of a core that the first tiers leave idle.
log=$(mktemp)
nice -n 19 make --no-print-directory image >"$log" 2>&1 &
image=$!
trap 'rm -f "$log"; kill "$image" 2>/dev/null || true' EXIT

failed=()
ci/test.sh --complete tests/pure tests/programs "$@" || failed+=("pure and programs")
if ! wait "$image"; then
    cat "$log" >&2
    failed+=(image)
fi
# Clusters and containers fill the machine: one at a time.
.venv/bin/python -m pytest --complete tests/clusters "$@" || failed+=(clusters)
if [ ${#failed[@]} -gt 0 ]; then
    printf -v list ', %s' "${failed[@]}"
    echo "test-all: failed: ${list:2}" >&2
    exit 1
fi
