#!/usr/bin/env bash
# needs: cc
# Called by ci/programs.py in the source folder, with PREFIX and ARRAY_SIZE [elements].
set -euo pipefail

flags=(-O3 -fopenmp "-DSTREAM_ARRAY_SIZE=$ARRAY_SIZE" -DNTIMES=20)
# Static arrays beyond 2 GiB do not fit the default code model of x86-64.
if ((3 * 8 * ARRAY_SIZE >= 2 ** 31)) && [ "$(uname -m)" = x86_64 ]; then
    flags+=(-mcmodel=medium -fno-pie -no-pie)
fi
mkdir -p "$PREFIX/bin"
cc "${flags[@]}" -o "$PREFIX/bin/stream_c.exe" stream.c
