#!/bin/bash
#SBATCH --job-name="rfm_OsuGpuCollective"
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:15:0
#SBATCH --exclusive
#SBATCH --gres=gpu:1
#SBATCH --no-requeue
#SBATCH --mem=0
export SLURM_MPI_TYPE=pmix
export PATH=/opt/assay/gpu/bin:$PATH
export OMPI_MCA_pml_base_verbose=10
export OMPI_MCA_mpi_show_mca_params=enviro,file,api
export UCX_TLS=rc,self,cuda_copy,cuda_ipc,gdr_copy
export UCX_LOG_LEVEL=info
export UCX_PROTO_INFO=y
export GDRCOPY_ENABLE_LOGGING=1
export GDRCOPY_LOG_LEVEL=1
export UCX_IB_GPU_DIRECT_RDMA=y
export UCX_NET_DEVICES=mlx5_0:1
export UCX_LOG_FILE=ucx.%h.%p.log
export OMPI_MCA_pml=ucx
export OMPI_MCA_opal_common_ucx_tls=any
export OMPI_MCA_opal_common_ucx_devices=any
export OMPI_MCA_coll=^sm,xhc,hcoll,ucc
export SLURM_CPU_BIND=none
export OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_hwloc_default_binding_policy=none
export MV2_ENABLE_AFFINITY=0
export SLURM_DISTRIBUTION=block
assay_stage=$PWD assay_nonce=$(cat assay.nonce)
read -r assay_up _ </proc/uptime; assay_start=$(date +%s.%N)
read -r assay_up_by _ </proc/uptime
rm -f "$assay_stage"/health.*; timeout 20 sh "$assay_stage"/node-health.sh job >"$assay_stage/health.$(uname -n).before" 2>/dev/null & assay_health=$!
timeout 60 sh "$assay_stage"/gpu-state.sh >"$assay_stage/gpus.$(uname -n).before"
wait "$assay_health"
assay_begin=$(date +%s.%N)
srun "$assay_stage"/rank-gpu.sh "$assay_stage"/link-witness.sh mlx5_0:1 "$assay_stage"/witness.sh rank osu_reduce -c -T mpi_int -d cuda
assay_rc=$?
read -r assay_down _ </proc/uptime; assay_end=$(date "+%s.%N zone=%z")
read -r assay_down_by _ </proc/uptime
printf "rc=%s start=%s begin=%s end=%s host=%s up=%s..%s down=%s..%s nonce=%s\n" "$assay_rc" "$assay_start" "$assay_begin" "$assay_end" "$(uname -n)" "$assay_up" "$assay_up_by" "$assay_down" "$assay_down_by" "$assay_nonce" >"$assay_stage"/assay.launch
timeout 20 sh "$assay_stage"/node-health.sh job >"$assay_stage/health.$(uname -n).after" 2>/dev/null & assay_health=$!
timeout 60 sh "$assay_stage"/gpu-state.sh >"$assay_stage/gpus.$(uname -n).after"
"$assay_stage"/witness.sh job $(compgen -A function -A alias)
wait "$assay_health"
exit $assay_rc
