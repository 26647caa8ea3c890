#!/usr/bin/env bash
# Fetch the Python ports of the OSU tests to .cache/osu-py/: demo/osu_*.py of mpi4py's source
# distribution, pinned in ci/osu-py.txt. Other people wrote them: they stay out of the repository.
#
# Needs .venv (ci/setup-venv.sh). A second call does nothing while ci/osu-py.txt is the same.
set -euo pipefail

die() {
    echo "fetch-osu-py: $*" >&2
    exit 1
}

cd "$(dirname "$0")/.."
pin=ci/osu-py.txt
target=.cache/osu-py
if cmp -s "$pin" "$target/pin.txt"; then
    exit 0
fi

mkdir -p .cache
work=$(mktemp -d .cache/osu-py.XXXXXX)
trap 'rm -rf "$work"' EXIT
echo "fetch-osu-py: fetching $(sed -n 's/ .*//; /^[a-z].*==/p' "$pin") as source"
# pip builds the metadata of what it downloads. It uses setuptools of .venv and fetches no builder.
if ! .venv/bin/python -m pip download --no-deps --no-binary :all: --no-build-isolation \
    --require-hashes --disable-pip-version-check --quiet --dest "$work" -r "$pin" \
    >"$work/pip.log" 2>&1; then
    if grep -q 'DO NOT MATCH THE HASHES' "$work/pip.log"; then
        die "refused: what came has sha256 $(sed -n 's/^ *Got *//p' "$work/pip.log")," \
            "$pin expects $(sed -n 's/^ *Expected sha256 *//p' "$work/pip.log")"
    fi
    cat "$work/pip.log" >&2
    die "pip could not fetch it; the lines above say why (network? proxy? pip's index?)"
fi

mkdir "$work/osu-py"
tar -xzf "$work"/*.tar.gz -C "$work/osu-py" --strip-components=2 --wildcards '*/demo/osu_*.py' ||
    die "this source distribution has no demo/osu_*.py"
cp "$pin" "$work/osu-py/pin.txt"
rm -rf "$target"
mv "$work/osu-py" "$target" # whole or not at all
echo "fetch-osu-py: $(find "$target" -name 'osu_*.py' | wc -l) programs in $target"
