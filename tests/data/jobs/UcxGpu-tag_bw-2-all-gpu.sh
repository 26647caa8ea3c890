#!/bin/bash
#SBATCH --job-name="rfm_UcxGpu"
#SBATCH --ntasks=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:5:0
#SBATCH --exclusive
#SBATCH --gres=gpu:2
#SBATCH --no-requeue
#SBATCH --mem=0
export SLURM_MPI_TYPE=pmix
export PATH=/opt/assay/gpu/bin:$PATH
export UCX_TLS=sm,self,cuda_copy,cuda_ipc,gdr_copy
export UCX_LOG_LEVEL=info
export UCX_PROTO_INFO=y
export GDRCOPY_ENABLE_LOGGING=1
export GDRCOPY_LOG_LEVEL=1
export UCX_LOG_FILE=ucx.%h.%p.log
assay_stage=$PWD assay_nonce=$(cat assay.nonce)
read -r assay_up _ </proc/uptime; assay_start=$(date +%s.%N)
read -r assay_up_by _ </proc/uptime
rm -f "$assay_stage"/health.*; timeout 20 sh "$assay_stage"/node-health.sh job >"$assay_stage/health.$(uname -n).before" 2>/dev/null & assay_health=$!
timeout 60 sh "$assay_stage"/gpu-state.sh >"$assay_stage/gpus.$(uname -n).before"
gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=uuid,pci.bus_id --format=csv,noheader | grep -o '^GPU-[^, ]*' | paste -s -d ,)}
export CUDA_VISIBLE_DEVICES=$(echo "$gpus" | cut -d , -f 1-2)
if [ $(echo $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w) -ne 2 ]; then
  echo "2 GPUs are needed, the job sees: ${gpus:-none}" >assay.refused
  exit 1
fi
port=$((20000 + $$ % 20000))
plain=$(UCX_LOG_LEVEL=fatal UCX_LOG_FILE= ucx_perftest -h 2>&1 | grep -q -e '-P <0|1>' && echo '-P 0')
set -- $(awk '/^Cpus_allowed_list/ { n = split($2, range, ",")
  for (i = 1; i <= n; i++) { split(range[i] "-" range[i], edge, "-")
    for (cpu = edge[1]; cpu <= edge[2]; cpu++) print cpu } }' /proc/self/status)
set -- $("$assay_stage"/near-cores.sh "$assay_stage/gpus.$(uname -n).before" "$CUDA_VISIBLE_DEVICES" "$@")
ucx_perftest $plain -c $1 -p $port >server.out 2>&1 &
server=$!
until grep -q ":$(printf %04X $port) .* 0A " /proc/net/tcp; do
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done
wait "$assay_health"
assay_begin=$(date +%s.%N)
ucx_perftest 127.0.0.1 $plain -c $2 -p $port -t tag_bw -s 16777216 -n 200 -w 100 -m cuda,cuda
assay_rc=$?
read -r assay_down _ </proc/uptime; assay_end=$(date "+%s.%N zone=%z")
read -r assay_down_by _ </proc/uptime
printf "rc=%s start=%s begin=%s end=%s host=%s up=%s..%s down=%s..%s nonce=%s\n" "$assay_rc" "$assay_start" "$assay_begin" "$assay_end" "$(uname -n)" "$assay_up" "$assay_up_by" "$assay_down" "$assay_down_by" "$assay_nonce" >"$assay_stage"/assay.launch
timeout 20 sh "$assay_stage"/node-health.sh job >"$assay_stage/health.$(uname -n).after" 2>/dev/null & assay_health=$!
timeout 60 sh "$assay_stage"/gpu-state.sh >"$assay_stage/gpus.$(uname -n).after"
[ "$assay_rc" -eq 0 ] || kill $server 2>/dev/null
wait $server 2>/dev/null
"$assay_stage"/witness.sh job $(compgen -A function -A alias)
wait "$assay_health"
exit $assay_rc
