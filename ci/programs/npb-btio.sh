#!/usr/bin/env bash
# needs: mpicc mpif90 make
# Called by ci/programs.py in the source folder, with PREFIX and JOBS. Each class is built in a copy
# of the source, because npbparams.h and the objects of one build are those of the next.
set -euo pipefail

[ ! -d NPB3.4-MPI ] || cd NPB3.4-MPI
flags=-O3
# MPI calls with buffers of several types, through the interface of mpif.h: GCC 10 and newer.
echo end >try.f90
if mpif90 -fallow-argument-mismatch -c try.f90 2>/dev/null; then flags+=' -fallow-argument-mismatch'; fi
cat >config/make.def <<END
MPIFC = mpif90
FLINK = mpif90
FFLAGS = $flags
FLINKFLAGS = \$(FFLAGS)
MPICC = mpicc
CLINK = mpicc
CFLAGS = -O3
CLINKFLAGS = \$(CFLAGS)
CC = mpicc
BINDIR = ../bin
RAND = randi8
END
# What an earlier build left, also in some checkouts.
find . \( -name '*.o' -o -name '*.mod' -o -name npbparams.h -o -path ./sys/setparams \) -delete
mkdir -p bin "$PREFIX/bin"

build() { # build CLASS, in a copy of the source
    local subtype
    rm -rf "../class-$1"
    cp -r . "../class-$1"
    cd "../class-$1"
    for subtype in full simple epio; do
        make -C BT clean
        make -C BT CLASS="$1" SUBTYPE="$subtype"
    done
    mv bin/bt."$1".x.* "$PREFIX/bin"
}
export -f build
export PREFIX
tr ' ' '\n' <<<"$CLASSES" | xargs -P "$JOBS" -I CLASS bash -euo pipefail -c 'build CLASS'
