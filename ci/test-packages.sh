#!/usr/bin/env bash
# What tests need beside the system stack, from Debian's packages: the emulated cluster with its
# accounting, and what single tests look for. Says what is missing, asks, and installs it, as root.
set -euo pipefail

cd "$(dirname "$0")/.."
vcluster/packages.sh --accounting
# Copies of a checkout; other roots; users of a container; simulated networks.
WHO=test-all ci/apptainer-packages.sh rsync mmdebstrap uidmap libsimgrid-dev
