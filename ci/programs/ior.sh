#!/usr/bin/env bash
# needs: mpicc
# Called by ci/programs.py in the source folder, with PREFIX. The archive of a tag has no `configure`
# and would need autoconf, automake and pkg-config. Without its answers there is no striping of
# Lustre, no GPFS, and no other interface than POSIX, MPI-IO and mmap.
set -euo pipefail

version=$(sed -n 's/^Version: *//p' META)
cat >src/config.h <<END
#define META_VERSION "$version"
#define PACKAGE_NAME "ior"
#define PACKAGE_TARNAME "ior"
#define PACKAGE_VERSION "$version"
#define PACKAGE_STRING "ior $version"
#define _XOPEN_SOURCE 700
#define HAVE_STRINGS_H 1
#define HAVE_SYS_PARAM_H 1
#define HAVE_SYS_MOUNT_H 1
#define HAVE_SYS_STATFS_H 1
#define HAVE_SYS_STATVFS_H 1
#define HAVE_STATVFS 1
#define HAVE_SYSCONF 1
#define USE_POSIX_AIORI
#define USE_MPIIO_AIORI
#define USE_MMAP_AIORI
END
cd src
sources=(ior mdtest utilities parse_options ior-output option md-workbench aiori aiori-DUMMY
    aiori-POSIX aiori-MPIIO aiori-MMAP)
printf '%s\n' "${sources[@]}" ior-main mdtest-main |
    xargs -P "$JOBS" -I NAME mpicc -std=gnu99 -g -O2 -I. -DHAVE_CONFIG_H -c NAME.c
mkdir -p "$PREFIX/bin"
for program in ior mdtest; do
    mpicc -o "$PREFIX/bin/$program" "$program-main.o" "${sources[@]/%/.o}" -lm
done
