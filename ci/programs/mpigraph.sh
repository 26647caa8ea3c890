#!/usr/bin/env bash
# needs: mpicc
# Called by ci/programs.py in the source folder, with PREFIX.
set -euo pipefail

mkdir -p "$PREFIX/bin"
mpicc -o "$PREFIX/bin/mpiGraph" mpiGraph.c
