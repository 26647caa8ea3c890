#!/usr/bin/env bash
# needs: mpicxx make
# Called by ci/programs.py in the source folder, with PREFIX and JOBS. With OpenMP, as in our stacks
# of Spack.
set -euo pipefail

# GCC 9 and newer want the bound of the loop named; upstream's commit e9e0b7e6.
sed -i 's/shared(local_residual, v1v, v2v)/shared(n, local_residual, v1v, v2v)/' src/ComputeResidual.cpp
cat >setup/Make.assay <<'END'
INCdir = ./src
CXX = mpicxx
LINKER = $(CXX)
CXXFLAGS = -I$(INCdir) -I$(INCdir)/$(arch) -O3 -ffast-math -ftree-vectorize -fopenmp
LINKFLAGS = $(CXXFLAGS)
HPCG_LIBS =
END
mkdir -p bin
make -j "$JOBS" arch=assay
mkdir -p "$PREFIX/bin"
cp bin/xhpcg "$PREFIX/bin"
