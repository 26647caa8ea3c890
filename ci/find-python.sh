#!/usr/bin/env bash
# Print the Python that makes .venv: $PYTHON if it is set, else the first one on PATH that is 3.10 or
# newer. RHEL 9 calls 3.9 "python3" and has python3.11 beside it.
set -euo pipefail

candidates=(python3 python3.14 python3.13 python3.12 python3.11 python3.10)
if [ -n "${PYTHON:-}" ]; then
    candidates=("$PYTHON")
fi
for candidate in "${candidates[@]}"; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        command -v "$candidate"
        exit
    fi
done
found="no program"
if command -v "${PYTHON:-python3}" >/dev/null; then
    found=$("${PYTHON:-python3}" --version 2>&1 | tail -n 1) || true
fi
echo "find-python: no Python 3.10 or newer: ${PYTHON:-python3} is $found;" \
    "name one that is by PYTHON=/path/to/python3" >&2
exit 1
