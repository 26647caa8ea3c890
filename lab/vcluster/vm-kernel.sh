#!/usr/bin/env bash
# Print the folder with the kernel of `vcluster up --machines vm` and with the archive that it starts
# from (vmlinuz, initrd): the one in the cache, else one that is made from Debian's kernel.
#
#   lab/vcluster/vm-kernel.sh [--no-build]     --no-build: only a folder that is there already
#
#   YES=1   install missing packages without asking (so does CI, if set, as root)
#
# Nothing is installed: the package is unpacked, and the host's own boot stays as it is.
set -euo pipefail

# The version of lab/vcluster/kernel.sh: it stays in the archive. The kernel for clouds has no soft-RoCE.
version=6.1.176-1 release=6.1.0-50-amd64
sha256=439422e41d2dbb840b60b81e3bf5e5955bfa56b7a8c268aec83c9ff882d421e6

# What Debian builds as modules: the files of the host, the network cards, verbs (soft-RoCE asks for
# crc32 by its name in the kernel), slow queues.
modules=(virtio_pci 9p 9pnet_virtio virtio_net crc32_generic rdma_rxe rdma_ucm ib_uverbs sch_netem)

cd "$(dirname "$0")/../.."
die() {
    echo "vm-kernel: $*" >&2
    exit 1
}

init=$PWD/lab/vcluster/vm-init
home=$PWD/.cache/vm-kernel
made=$home/$version-$(cat "$init" lab/vcluster/vm-kernel.sh | sha256sum | cut -c1-12)
if [ -f "$made/initrd" ]; then
    echo "$made"
    exit
fi
[ "${1:-}" != --no-build ] || die "none of this version in $home: type lab/vcluster/vm-kernel.sh"
[ "$(uname -m)" = x86_64 ] || die "the kernel is one for x86_64, this is $(uname -m)"

helper=/usr/lib/apt/apt-helper
[ -x "$helper" ] || die "none in $home, and it is made on Debian only"
WHO=vm-kernel ci/packages.sh busybox-static >&2 || die "it needs the package named above"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/assay-vm-kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The first archive that apt reads holds the pool.
read -r _ mirror _ < <(ci/debian-archive.sh bookworm) || exit 1
package=linux-image-$release-unsigned_${version}_amd64.deb
echo "vm-kernel: fetching $package" >&2
"$helper" download-file "${mirror%/}/pool/main/l/linux/$package" "$work/$package" \
    "SHA256:$sha256" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    die "fetching it failed, see above"
}
echo "vm-kernel: unpacking it" >&2
dpkg-deb --fsys-tarfile "$work/$package" | tar -x -C "$work" ./boot ./lib/modules

# The modules in the order in which they are loaded.
busybox depmod -b "$work" "$release"
cd "$work/lib/modules/$release"
needs() { # needs MODULE: its file after the files of what it needs
    local line
    line=$(grep -m 1 "/$1\.ko:" modules.dep) || {
        grep -q "/$1\.ko$" modules.builtin || die "this Linux has no module $1"
        return 0
    }
    # modules.dep names the nearest need last.
    for file in ${line#*:}; do echo "$file"; done | tac
    echo "${line%%:*}"
}
root=$work/root
mkdir -p "$root"/{bin,modules,root,dev}
for module in "${modules[@]}"; do needs "${module}"; done | awk '!seen[$0]++' >"$work/order"
while read -r file; do
    cp "$file" "$root/modules/"
    echo "${file##*/}"
done <"$work/order" >"$root/modules/order"
cp /bin/busybox "$root/bin/"
cp "$init" "$root/init"
mkdir -p "$work/made"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/made/initrd"
cp "$work/boot/vmlinuz-$release" "$work/made/vmlinuz"
chmod -R a+rX "$work/made"
mkdir -p "$home"
rm -rf "$made"
mv "$work/made" "$made" # whole or not at all
echo "$made"
