#!/usr/bin/env bash
# Run the linters and, beside them, the tests on all cores. Ends with 1 if either fails.
#
#   ci/test.sh [arguments of pytest]      --short: what make test runs
#
# PYTEST_WORKERS   how many tests run at once (default: cores + 1; 0: no xdist, for --pdb)
set -euo pipefail

cd "$(dirname "$0")/.."
# Container images often set this. Each of a thousand processes would compile what it imports.
unset PYTHONDONTWRITEBYTECODE
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ci/lint.sh >"$log" 2>&1 &
lint=$!
# Each worker would rewrite the assertions of all tests, where nobody has done so yet.
[ -d tests/pure/__pycache__ ] || .venv/bin/python -m pytest --collect-only -qq >/dev/null || true
# Many tests wait for something: one worker more than there are cores keeps the cores busy.
workers=${PYTEST_WORKERS:-$(($(nproc) + 1))}
tests=0
.venv/bin/python -m pytest -n "$workers" "$@" || tests=$?
if ! wait "$lint"; then
    cat "$log" >&2
    exit 1
fi
exit "$tests"
