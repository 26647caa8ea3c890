# shellcheck shell=bash
# Sourced in the root of the checkout by each job of what spack-generate.sh writes: the pinned Spack,
# as a shell knows it.
set -euo pipefail
. ci/spack-env.sh
# shellcheck disable=SC2034 # said by die
name=spack-shell
spack_find
set +u # Spack's own
# shellcheck source=/dev/null
. "$SPACK_ROOT/share/spack/setup-env.sh"
