# shellcheck shell=bash
# Sourced by each job that spack-generate.sh writes: the pinned Spack, with its shell support.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. ci/spack-env.sh
# shellcheck disable=SC2034 # said by die
name=spack-shell
spack_find
cd "$OLDPWD"
set +u # Spack's own
# shellcheck source=/dev/null
. "$SPACK_ROOT/share/spack/setup-env.sh"
