#!/bin/sh
# rank-gpu.sh PROGRAM [ARGUMENT...]
#
# Gives each rank of a node a GPU of its own. The OSU programs take the GPU of their number on the
# node before MPI_Init, from LOCAL_RANK if the launcher says it by no name that they know
# (util/osu_util_mpi.c of OSU 5.7 knows mpirun's of Open MPI and of MVAPICH2): started by srun all
# ranks would share the first.
set -u
LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${PMI_LOCAL_RANK:-}}}
if [ -z "$LOCAL_RANK" ]; then
    echo "rank-gpu.sh: the launcher does not say the number of this rank on its node" >&2
    exit 1
fi
export LOCAL_RANK
# Which that is, by its UUID: what a number means hangs on what each rank is shown.
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
