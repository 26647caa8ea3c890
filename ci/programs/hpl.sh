#!/usr/bin/env bash
# needs: mpicc make blas
# Called by ci/programs.py in the source folder, with PREFIX, JOBS and BLAS, the arguments of the
# linker. A checkout has no `configure`, so release and checkout are made by the makefiles of both.
set -euo pipefail

cat >Make.assay <<END
SHELL = /bin/sh
CD = cd
CP = cp
LN_S = ln -sf
MKDIR = mkdir -p
RM = rm -f
TOUCH = touch
ARCH = assay
TOPdir = $PWD
INCdir = \$(TOPdir)/include
BINdir = \$(TOPdir)/bin/\$(ARCH)
LIBdir = \$(TOPdir)/lib/\$(ARCH)
HPLlib = \$(LIBdir)/libhpl.a
HPL_INCLUDES = -I\$(INCdir) -I\$(INCdir)/\$(ARCH)
HPL_LIBS = \$(HPLlib) $BLAS -lm
HPL_OPTS = -DHPL_PROGRESS_REPORT -DHPL_DETAILED_TIMING
HPL_DEFS = -DAdd_ -DF77_INTEGER=int -DStringSunStyle \$(HPL_OPTS) \$(HPL_INCLUDES)
CC = mpicc
CCNOOPT = \$(HPL_DEFS)
CCFLAGS = \$(HPL_DEFS) -O3
LINKER = mpicc
LINKFLAGS = \$(CCFLAGS)
ARCHIVER = ar
ARFLAGS = r
RANLIB = echo
END
# A release has a Makefile of automake over the one that knows `arch`.
make -f Make.top startup_dir startup_src startup_tst refresh_src refresh_tst arch=assay
make -f Make.top build_src arch=assay
make -f Make.top build_tst arch=assay
mkdir -p "$PREFIX/bin"
cp bin/assay/xhpl "$PREFIX/bin"
