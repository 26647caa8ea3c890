#!/bin/sh
# rank-gpu.sh PROGRAM [ARGUMENT...]
#
# Gives each rank of a node its own GPU. Before MPI_Init, each OSU program selects the GPU with the
# number of its local rank. The programs know the variables in which mpirun of Open MPI and of
# MVAPICH2 gives the local rank (util/osu_util_mpi.c of OSU 5.7). With another launcher they read
# LOCAL_RANK. Without LOCAL_RANK, all ranks that srun starts would share the first GPU.
# SLURM_LOCALID comes last: ranks of other launchers inherit its 0 from the script of the job.
#
# Then it moves the rank to the processors near its GPU, as the kernel knows them. Launchers do not
# ask for them: Slurm's task/affinity gives the two tasks of a node one socket each, and both GPUs
# may be near the first one. The kernel keeps the rank inside the cpuset of the job. If only the
# place of the network device is known, the rank is moved there.
#
# The file gpus.sh beside it says what differs by vendor (assay.gpu.accelerator), and who binds.
set -u
visible='' renumbering='' binding=suite peer_memory='' kernel_module=''
# shellcheck source=/dev/null
. "$(dirname "$0")/gpus.sh" || exit 1
LOCAL_RANK=''
for name in OMPI_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID PMI_LOCAL_RANK \
    SLURM_LOCALID; do
    LOCAL_RANK=${LOCAL_RANK:-$(printenv "$name")}
done
if [ -z "$LOCAL_RANK" ]; then
    echo "rank-gpu.sh: the launcher does not say the number of this rank on its node" >&2
    exit 1
fi
export LOCAL_RANK
chosen=$(printenv "$visible")
# Record this GPU by its UUID: the meaning of a number depends on the GPUs that a rank can see.
# The number is that among the visible GPUs, by which UCX names the GPU. The kernel writes an address
# on the bus as 0000:1b:00.0, nvidia-smi as 00000000:1B:00.0.
read -r gpu number bus <<WORDS
$(uuids 2>/dev/null | grep ^GPU- | awk -F '[, ]+' -v visible="$chosen" -v rank="$LOCAL_RANK" '
    { uuid[NR - 1] = $1; bus[$1] = tolower(substr($2, length($2) - 11)) }
    END {
        n = split(visible, chosen, ",")
        if (visible == "") for (; n < NR; n++) chosen[n + 1] = n
        if (!n) exit
        it = chosen[rank % n + 1]
        if (it in uuid) it = uuid[it]
        print it, rank % n, bus[it]
    }')
WORDS
for name in $renumbering; do
    [ -z "$(printenv "$name")" ] || gpu=unknown bus=''
done

# near FOLDER: the processors near a device; nothing if the kernel does not know its NUMA node.
near() {
    read -r node <"$1/numa_node" && [ "$node" -ge 0 ] && read -r list <"$1/local_cpulist" &&
        echo "$list"
} 2>/dev/null

root=${ASSAY_SYSFS:-/sys}
device=${UCX_NET_DEVICES:-}
device=${device%%,*}
case $device in
*:*) folder=infiniband/${device%:*} ;;
*) folder=net/$device ;;
esac
beside=$(near "$root/bus/pci/devices/${bus:-unknown}")
network=$(near "$root/class/$folder/device")
if [ "$binding" = suite ]; then
    taskset -pc "${beside:-$network}" $$ >/dev/null 2>&1
fi

# By what a network adapter reaches the memory of the GPUs: a module for it, or dma-buf, which the open
# kernel module of the GPUs and Linux 5.12 have. `open` is without that Linux, `no` is neither.
rdma=unknown
if read -r said <"$kernel_module"; then
    case $said in
    *'Open Kernel Module'*)
        rdma=$(uname -r | awk -F . '{ print ($1 > 5 || ($1 == 5 && $2 + 0 >= 12)) ? "dma-buf" : "open" }')
        ;;
    *) rdma=no ;;
    esac
fi 2>/dev/null
for module in $peer_memory; do
    [ ! -e "$root/module/$module" ] || rdma=$module
done

cpus=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' /proc/self/status)
echo "$(uname -n) $LOCAL_RANK ${chosen:-all} ${gpu:-unknown} $$ ${number:-0} ${cpus:-unknown}" \
    "${beside:-unknown} ${network:-unknown} $rdma" >"gpu.$(uname -n).$LOCAL_RANK"
exec "$@"
