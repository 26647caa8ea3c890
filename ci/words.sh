#!/usr/bin/env bash
# Start a program with its arguments, and then with the words in a variable.
#
#   ci/words.sh VARIABLE PROGRAM [ARGUMENT...]
#
# Blanks part the words; quotes and backslashes keep them together. No shell reads them: `;`, `|`,
# `*` and `$` are text. Ends as the program does.
set -euo pipefail

text=${!1:-}
xargs -r true <<<"$text" 2>/dev/null || {
    echo "words: $1 has a quote that is not closed: $text" >&2
    exit 64
}
mapfile -d '' -t words < <(xargs -r printf '%s\0' <<<"$text")
shift
exec "$@" "${words[@]}"
