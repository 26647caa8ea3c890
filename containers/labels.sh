#!/bin/sh
# Inside a build: print the labels that describe the content of the image, one "NAME VALUE" a line.
#
# Versions come from the programs and libraries themselves, or from the lock of SPACK_SITE, if that
# is set. A lock is the hash of its file. BASE is what the image was built on: its digest is known if
# it is named by one.
set -eu

suite=$(cd "$(dirname "$0")/.." && pwd)
label() { # label NAME VALUE: no label without a value
    [ -n "$2" ] || { echo "labels: $1 is not known" >&2; exit 1; }
    echo "$1 $2"
}
project() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" "$suite/pyproject.toml" | head -n 1; }
sha256() { sha256sum "$1" | cut -d' ' -f1; }

commit=$(sed -n 's/^node: \([0-9a-f]*\)$/\1/p' "$suite/.git_archival.txt")
label org.opencontainers.image.revision "$commit"
label org.opencontainers.image.version "$(project version)"
label org.opencontainers.image.licenses "$(project license)"
case ${BASE:-} in
*@sha256:*) label org.opencontainers.image.base.digest "sha256:${BASE##*@sha256:}" ;;
esac
label assay.lock.requirements "$(sha256 "$suite/requirements/run.lock")"
if [ -n "${SPACK_SITE:-}" ]; then
    # Without libcuda, which a build lacks, programs of this stack may not start: ask its lock.
    view() { python3 "$suite/containers/view.py" "$@"; }
    label assay.lock.spack "$(sha256 "$(view lock "$SPACK_SITE")")"
    for each in openmpi pmix ucx; do
        label "$each.version" "$(view version "$SPACK_SITE" "$each")"
    done
    exit
fi
label assay.programs "$(python3 "$suite/containers/view.py" compiled)"
label openmpi.version "$(ompi_info --version | sed -n 's/^Open MPI v//p')"
# PMIx may have no program, so the version comes from its library.
label pmix.version "$(python3 -c '
import ctypes, re
library = ctypes.CDLL("libpmix.so.2")
library.PMIx_Get_version.restype = ctypes.c_char_p
print(re.search(r"\d+(\.\d+)+", library.PMIx_Get_version().decode())[0])')"
label ucx.version "$(ucx_info -v | sed -n '1s/^[^0-9]*\([0-9.]*\).*/\1/p')"
