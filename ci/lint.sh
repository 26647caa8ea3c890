#!/usr/bin/env bash
# Run all linters and the type checker, each to its end. Ends with 1 if any of them objects.
set -euo pipefail

cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

failed=()
step() {
    echo "lint: $*"
    "$@" || failed+=("$1")
}

step ruff check .
step ruff format --check .
step mypy
step lint-imports --no-cache
scripts=()
while IFS= read -r -d '' file; do
    if [[ $(head -c 64 "$file" | tr -d '\0' | head -n 1) =~ ^'#!'.*sh$ ]]; then
        scripts+=("$file")
    fi
done < <(git ls-files -z --cached --others --exclude-standard -- ':!tests/data' ':!studies/tests/data' ':!*.jinja')
step shellcheck "${scripts[@]}"
step yamllint --strict .
step ci/image-lint.py
step ci/width.py
if [ ${#failed[@]} -gt 0 ]; then
    echo "lint: failed: ${failed[*]}" >&2
    exit 1
fi
