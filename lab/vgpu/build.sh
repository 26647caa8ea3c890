#!/usr/bin/env bash
# Build the emulated GPU with gcc alone: libcuda, libcudart, libnvidia-ml, nvidia-smi, dmesg, gdrdrv.
#
#   lab/vgpu/build.sh [DIRECTORY]     writes DIRECTORY/lib and DIRECTORY/bin (default: build/vgpu)
#
# A second call does nothing unless a source has changed. docs/vgpu.md describes the emulated GPU.
set -euo pipefail

cd "$(dirname "$0")"
out=${1:-../../build/vgpu}

die() {
    echo "lab/vgpu/build.sh: $*" >&2
    exit 1
}

command -v gcc >/dev/null || die "no gcc: install the package gcc"
[ "$(uname -m)" = x86_64 ] || die "the emulated GPU is written for x86_64, this is $(uname -m)"

sources=$(cat ./*.c ./*.h ./*.map build.sh | sha256sum)
[ "$sources" != "$(cat "$out/sources" 2>/dev/null)" ] || exit 0

mkdir -p "$out/lib" "$out/bin"
flags=(-std=c17 -D_GNU_SOURCE -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror)

library() { # FILE SONAME SOURCE...
    local soname=$1
    shift
    gcc "${flags[@]}" -shared -Wl,-z,defs -Wl,-soname,"$soname" -o "$out/lib/$soname" "$@" \
        -lpthread -ldl
}

library libcuda.so.1 context.c ipc.c lookup.c memory.c node.c pointer.c stream.c trace.c
library libcudart.so.12 -Wl,--version-script=runtime.map runtime.c node.c trace.c \
    -L"$out/lib" -l:libcuda.so.1
library libnvidia-ml.so.1 nvml.c node.c
library libgdrdrv.so gdrdrv.c node.c trace.c
gcc "${flags[@]}" -o "$out/bin/nvidia-smi" smi.c node.c
gcc "${flags[@]}" -o "$out/bin/dmesg" dmesg.c node.c
echo "$sources" >"$out/sources"
