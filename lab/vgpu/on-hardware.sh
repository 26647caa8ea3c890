#!/usr/bin/env bash
# Run ucx_perftest between the real GPUs of this machine and between emulated ones, and compare.
#
#   lab/vgpu/on-hardware.sh FOLDER [VERSION...]
#
# Writes FOLDER/real and FOLDER/emulated: the logs of each run, in the format of tests/data/vgpu. Then
# it prints each line of UCX's lanes and tables in which they differ, and ends with 1 if there is one.
# Takes minutes, and needs gcc, pip and Python 3.9 or newer, but no .venv. Without a network, pip finds
# the wheels of lab/vgpu/ucx.lock in a folder: PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER
#
# Not yet run on hardware.
set -euo pipefail

out=$(realpath -m "${1:?"FOLDER for the logs"}")
shift
cd "$(dirname "$0")/../.."
export PYTHONPATH=$PWD/src

command -v nvidia-smi >/dev/null || {
    echo "lab/vgpu/on-hardware.sh: no nvidia-smi on PATH: run it on a machine with a GPU of NVIDIA" >&2
    exit 2
}
records() { python3 tests/programs/gpu_records.py "$@"; }

lab/vgpu/build.sh
lab/vgpu/ucx.sh "$@"
lab/vgpu/ucx.sh --real "$@"
failed=
records record "$out/real" --real || failed=yes
records record "$out/emulated" || failed=yes
records compare "$out/emulated" "$out/real" || failed=yes
[ -z "$failed" ] || exit 1
