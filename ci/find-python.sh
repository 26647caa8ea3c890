#!/usr/bin/env bash
# Print the Python that makes .venv: $PYTHON if it is set, else the first one on PATH that can run
# ReFrame (3.10 or newer), else a 3.9, which runs the library but no benchmarks. RHEL 9 calls 3.9
# "python3" and has python3.11 beside it.
set -euo pipefail

usable() { # usable PYTHON MINOR: is PYTHON a Python 3.MINOR or newer?
    "$1" -c "import sys; sys.exit(sys.version_info < (3, $2))" 2>/dev/null
}

candidates=(python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9)
if [ -n "${PYTHON:-}" ]; then
    candidates=("$PYTHON")
fi
for minor in 10 9; do
    for candidate in "${candidates[@]}"; do
        if usable "$candidate" "$minor"; then
            command -v "$candidate"
            exit
        fi
    done
done
found="no program"
if command -v "${PYTHON:-python3}" >/dev/null; then
    found=$("${PYTHON:-python3}" --version 2>&1 | tail -n 1) || true
fi
echo "find-python: no Python 3.9 or newer (3.10 to run ReFrame): ${PYTHON:-python3} is $found;" \
    "name one that is by PYTHON=/path/to/python3" >&2
exit 1
