#!/usr/bin/env bash
# The programs of the emulated cluster, from Debian's packages (ci/packages.sh installs them).
#
#   vcluster/packages.sh [--accounting]     --accounting: MariaDB and slurmdbd too
set -euo pipefail

packages=(
    slurm-wlm slurm-wlm-basic-plugins slurm-client munge # the scheduler
    iproute2 iptables libnetfilter-queue-dev gcc libc6-dev # links: shaped, delayed, broken
    libpmix-dev # libpmix.so, which mpi_pmix_v4.so opens by that name: srun --mpi=pmix
    xfsprogs util-linux # a disk for each node
)
[ "${1:-}" != --accounting ] || packages+=(mariadb-server-core mariadb-client-core slurmdbd)

WHO=vcluster exec "$(dirname "$0")/../ci/packages.sh" "${packages[@]}"
