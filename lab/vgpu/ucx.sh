#!/usr/bin/env bash
# Install UCX with CUDA, as wheels pinned in lab/vgpu/ucx.lock, to run on the emulated GPU.
#
#   lab/vgpu/ucx.sh [--real] [VERSION...]
#
# Each version goes to .cache/vgpu/VERSION: bin/ has its programs, lib/ its libraries. Without a
# version, all of them are installed, at the same time. With --real they go to .cache/vgpu/real and
# run on a real GPU only. A second call does nothing. pip is that of .venv, or else of python3.
set -euo pipefail

cd "$(dirname "$0")/../.."
home=.cache/vgpu
emulated=$PWD/build/vgpu/lib/libcudart.so.12
[ "${1:-}" != --real ] || { shift && home+=/real emulated=; }
python=.venv/bin/python
[ -x "$python" ] || python=python3

die() {
    echo "lab/vgpu/ucx.sh: $*" >&2
    exit 1
}

mapfile -t pinned < <(sed -n 's/^libucx-cu12==\([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p' lab/vgpu/ucx.lock)
[ $# -gt 0 ] || set -- "${pinned[@]}"
[ -z "$emulated" ] || [ -f "$emulated" ] ||
    die "no emulated GPU in build/vgpu: type lab/vgpu/build.sh"

install() { # install VERSION
    local version=$1 target=$home/$1 pin library
    pin=$(grep "^libucx-cu12==${version}[ .]" lab/vgpu/ucx.lock) ||
        die "no UCX $version in lab/vgpu/ucx.lock: ${pinned[*]}"
    [ "$pin" != "$(cat "$target/pin.txt" 2>/dev/null)" ] || return 0

    mkdir -p "$home"
    work=$(mktemp -d "$home/install.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "lab/vgpu/ucx.sh: fetching ${pin%% *}"
    echo "$pin" >"$work/pin.txt"
    "$python" -m pip install --require-hashes --no-deps --only-binary :all: --quiet \
        --disable-pip-version-check --target "$work/wheel" -r "$work/pin.txt" ||
        die "pip could not install ${pin%% *}; the lines above say why (network? proxy? pip's index?)"

    # The wheel finds its own libcudart by RPATH, which LD_LIBRARY_PATH does not override. Nothing of
    # CUDA's own runtime works without a real driver, so the emulated one takes its place.
    for library in ${emulated:+"$work"/wheel/libucx_cu12.libs/libcudart-*}; do
        ln -sfn "$emulated" "$library"
    done
    chmod +x "$work"/wheel/libucx/bin/*
    ln -s wheel/libucx/bin wheel/libucx/lib "$work"
    chmod 755 "$work"
    rm -rf "$target"
    mv "$work" "$target" # whole or not at all
}

running=() failed=
for version in "$@"; do
    install "$version" &
    running+=($!)
done
for each in "${running[@]}"; do
    wait "$each" || failed=yes
done
[ -z "$failed" ] || exit 1
