#!/usr/bin/env bash
# The programs of the emulated cluster, from Debian's packages (ci/packages.sh installs them).
#
#   lab/vcluster/packages.sh [--accounting] [--uml] [--vm] [--shared]
#
#   --accounting: MariaDB and slurmdbd too; --uml: what nodes with a kernel of their own need beside
#   the kernel (lab/vcluster/kernel.sh); --vm: the same for virtual machines; --shared: GlusterFS, which Debian has with the tools of clients
set -euo pipefail

packages=(
    slurm-wlm slurm-wlm-basic-plugins slurm-client munge # the scheduler
    iproute2 iptables libnetfilter-queue-dev gcc libc6-dev # links: shaped, delayed, broken
    libpmix-dev # libpmix.so, which mpi_pmix_v4.so opens by that name: srun --mpi=pmix
    xfsprogs util-linux # a disk for each node
)
for word in "$@"; do
    case $word in
    --accounting) packages+=(mariadb-server-core mariadb-client-core slurmdbd) ;;
    # The library of soft-RoCE; ib_write_bw and ib_send_lat; pkill, for faults.
    --uml) packages+=(ibverbs-providers perftest procps) ;;
    --vm) packages+=(qemu-system-x86 ibverbs-providers procps) ;;
    --shared) packages+=(glusterfs-client) ;;
    *)
        echo "lab/vcluster/packages.sh: $word: there are --accounting, --uml, --vm and --shared" >&2
        exit 1
        ;;
    esac
done

WHO=vcluster exec "$(dirname "$0")/../../ci/packages.sh" "${packages[@]}"
