#!/bin/sh
# rank-gpu.sh PROGRAM [ARGUMENT...]
#
# Gives each rank of a node its own GPU. Before MPI_Init, each OSU program selects the GPU with the
# number of its local rank. The programs know the variables in which mpirun of Open MPI and of
# MVAPICH2 gives the local rank (util/osu_util_mpi.c of OSU 5.7). With another launcher they read
# LOCAL_RANK. Without LOCAL_RANK, all ranks that srun starts would share the first GPU.
set -u
LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PMI_LOCAL_RANK:-}}}
if [ -z "$LOCAL_RANK" ]; then
    echo "rank-gpu.sh: the launcher does not say the number of this rank on its node" >&2
    exit 1
fi
export LOCAL_RANK
# Record this GPU by its UUID: the meaning of a number depends on the GPUs that a rank can see.
gpu=$(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null |
    awk -v visible="${CUDA_VISIBLE_DEVICES:-}" -v rank="$LOCAL_RANK" '
        { uuid[NR - 1] = $1 }
        END {
            n = split(visible, chosen, ",")
            if (visible == "") for (; n < NR; n++) chosen[n + 1] = n
            if (n) { it = chosen[rank % n + 1]; print (it in uuid) ? uuid[it] : it }
        }')
echo "$(uname -n) $LOCAL_RANK ${CUDA_VISIBLE_DEVICES:-all} ${gpu:-unknown}" \
    >"gpu.$(uname -n).$LOCAL_RANK"
exec "$@"
