#!/usr/bin/env bash
# needs: mpicc mpicxx make
# Called by ci/programs.py in the source folder, with PREFIX and JOBS. Without GPUs.
set -euo pipefail

./configure --prefix="$PREFIX" CC=mpicc CXX=mpicxx
make -j "$JOBS"
make install
mkdir -p "$PREFIX/bin"
# Its own folders are not on PATH: libexec/osu-micro-benchmarks/mpi/pt2pt and others.
find "$PREFIX/libexec" -type f -name 'osu_*' -exec mv -t "$PREFIX/bin" {} +
rm -rf "$PREFIX/libexec"
