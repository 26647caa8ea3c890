#!/usr/bin/env bash
# Debian packages that tests need beside the system stack: for the emulated cluster with its
# accounting, and for single tests. Names the missing packages, asks, and installs them, as root.
set -euo pipefail

cd "$(dirname "$0")/.."
lab/vcluster/packages.sh --accounting --uml --shared
# For copies of a checkout, other roots, users of a container, simulated networks, the emulated GPU,
# patches of ReFrame.
WHO=test-all ci/packages.sh rsync mmdebstrap uidmap libsimgrid-dev gcc libc6-dev patch
