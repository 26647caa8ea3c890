#!/bin/sh
# rank-gpu.sh PROGRAM [ARGUMENT...]
#
# Gives each rank of a node its own GPU. Before MPI_Init, each OSU program selects the GPU with the
# number of its local rank. The programs know the variables in which mpirun of Open MPI and of
# MVAPICH2 gives the local rank (util/osu_util_mpi.c of OSU 5.7). With another launcher they read
# LOCAL_RANK. Without LOCAL_RANK, all ranks that srun starts would share the first GPU.
#
# The file gpus.sh beside it says what differs by vendor (assay.gpu.accelerator).
set -u
visible='' renumbering=''
# shellcheck source=/dev/null
. "$(dirname "$0")/gpus.sh" || exit 1
LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PMI_LOCAL_RANK:-}}}
if [ -z "$LOCAL_RANK" ]; then
    echo "rank-gpu.sh: the launcher does not say the number of this rank on its node" >&2
    exit 1
fi
export LOCAL_RANK
chosen=$(printenv "$visible")
# Record this GPU by its UUID: the meaning of a number depends on the GPUs that a rank can see.
# The number is that among the visible GPUs, by which UCX names the GPU.
words=$(uuids 2>/dev/null |
    awk -v visible="$chosen" -v rank="$LOCAL_RANK" '
        { uuid[NR - 1] = $1 }
        END {
            n = split(visible, chosen, ",")
            if (visible == "") for (; n < NR; n++) chosen[n + 1] = n
            if (n) { it = chosen[rank % n + 1]; print (it in uuid) ? uuid[it] : it, rank % n }
        }')
gpu=${words% *} number=${words##* }
for name in $renumbering; do
    [ -z "$(printenv "$name")" ] || gpu=unknown
done
cpus=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' /proc/self/status)
echo "$(uname -n) $LOCAL_RANK ${chosen:-all} ${gpu:-unknown} $$ ${number:-0} ${cpus:-unknown}" \
    >"gpu.$(uname -n).$LOCAL_RANK"
exec "$@"
