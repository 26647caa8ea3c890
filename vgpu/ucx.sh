#!/usr/bin/env bash
# Install UCX with CUDA, as a wheel pinned in vgpu/ucx.lock, to run on the emulated GPU.
#
#   vgpu/ucx.sh [1.22.0]      to .cache/vgpu/1.22.0: bin/ has its programs, lib/ its libraries
#
# Needs .venv (ci/setup-venv.sh) and the emulated GPU (vgpu/build.sh). A second call does nothing.
set -euo pipefail

cd "$(dirname "$0")/.."
version=${1:-1.22.0}
target=.cache/vgpu/$version

die() {
    echo "vgpu/ucx.sh: $*" >&2
    exit 1
}

pin=$(grep "^libucx-cu12==${version}[ .]" vgpu/ucx.lock) ||
    die "no UCX $version in vgpu/ucx.lock: $(sed -n 's/^libucx-cu12==\([0-9.]*[0-9]\).*/\1/p' \
        vgpu/ucx.lock | paste -s -d ' ')"
[ "$pin" != "$(cat "$target/pin.txt" 2>/dev/null)" ] || exit 0
[ -f build/vgpu/lib/libcudart.so.12 ] || die "no emulated GPU in build/vgpu: type vgpu/build.sh"

mkdir -p .cache/vgpu
work=$(mktemp -d .cache/vgpu/install.XXXXXX)
trap 'rm -rf "$work"' EXIT
echo "vgpu/ucx.sh: fetching ${pin%% *}"
echo "$pin" >"$work/pin.txt"
.venv/bin/python -m pip install --require-hashes --no-deps --only-binary :all: --quiet \
    --disable-pip-version-check --target "$work/wheel" -r "$work/pin.txt" ||
    die "pip could not install ${pin%% *}; the lines above say why (network? proxy? pip's index?)"

# The wheel finds its own libcudart by RPATH, which LD_LIBRARY_PATH does not override. Nothing of
# CUDA's own runtime works without a real driver, so the emulated one takes its place.
for library in "$work"/wheel/libucx_cu12.libs/libcudart-*; do
    ln -sfn "$PWD/build/vgpu/lib/libcudart.so.12" "$library"
done
chmod +x "$work"/wheel/libucx/bin/*
ln -s wheel/libucx/bin wheel/libucx/lib "$work"
chmod 755 "$work"
rm -rf "$target"
mv "$work" "$target" # whole or not at all
