#!/usr/bin/env bash
# Print the path of the User-Mode Linux kernel of `vcluster up --machines uml`: the one in the cache,
# else one that is built from Debian's source of Linux, with the changes of lab/vcluster/kernel-edits.sh
# and the options in lab/vcluster/uml.config.
#
#   lab/vcluster/kernel.sh [--no-build]     --no-build: only a kernel that is there already
#
#   YES=1   install missing packages without asking (so does CI, if set, as root)
#
# The build takes minutes of processor time, and 1 GB below $TMPDIR (/var/tmp) while it runs.
set -euo pipefail

# Debian 12's last version of the package outside of security updates: it stays in the archive.
version=6.1.176-1
sha256=9305d1a151b8e83dcb88aa11361e7b9513f0c252bdf7f5647e4542762d99c094

cd "$(dirname "$0")/../.."
die() {
    echo "kernel: $*" >&2
    exit 1
}
say() { echo "kernel: $*" >&2; } # standard output is the answer

config=$PWD/lab/vcluster/uml.config
edits=$PWD/lab/vcluster/kernel-edits.sh
home=$PWD/.cache/uml-kernel
made=$home/$version-$(cat "$config" "$edits" | sha256sum | cut -c1-12)/linux
if [ -x "$made" ]; then
    "$made" --version >/dev/null ||
        die "$made does not start, see above; remove it to build it anew"
    echo "$made"
    exit
fi
[ "${1:-}" != --no-build ] || die "none of this version in $home: type lab/vcluster/kernel.sh"
[ "$(uname -m)" = x86_64 ] || die "User-Mode Linux runs on x86_64, this is $(uname -m)"

helper=/usr/lib/apt/apt-helper
[ -x "$helper" ] || die "none in $home, and it is built on Debian only"
WHO=kernel ci/packages.sh gcc libc6-dev make flex bison bc xz-utils ||
    die "its build needs the packages named above"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/assay-kernel.XXXXXX") # its makefile knows no blanks
trap 'rm -rf "$work"' EXIT
step() { # step WHAT COMMAND...
    local what=$1
    shift
    say "$what"
    "$@" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        die "$what failed, see above"
    }
}

# The first archive that apt reads holds the pool.
read -r _ mirror _ < <(ci/debian-archive.sh bookworm) || exit 1
package=linux-source-6.1_${version}_all.deb
step "fetching $package" "$helper" download-file "${mirror%/}/pool/main/l/linux/$package" \
    "$work/$package" "SHA256:$sha256"

# Leave out most of what no configuration of ours compiles. Every Kconfig and makefile stays.
unpack() {
    local part leave_out=()
    for part in drivers/{gpu,media,staging,scsi,usb,net/ethernet,net/wireless} sound tools/{testing,perf}; do
        leave_out+=("--exclude=*/$part/*."{c,h,S,rst,json})
    done
    dpkg-deb --fsys-tarfile "$work/$package" | tar -xO ./usr/src/linux-source-6.1.tar.xz |
        tar -xJ -C "$work" --strip-components=1 --one-top-level=source "${leave_out[@]}" \
            --exclude='*/arch/*/boot/dts' --exclude='*/Documentation/*.rst'
}
step "unpacking it" unpack
rm "$work/$package"

step "changing it" "$edits" "$work/source"

build=(make -C "$work/source" ARCH=um -j "$(nproc)")
step "configuring" "${build[@]}" allnoconfig KCONFIG_ALLCONFIG="$config"
while read -r line; do
    grep -qxF "$line" "$work/source/.config" || die "this Linux has no $line (lab/vcluster/uml.config)"
done < <(grep '^CONFIG' "$config")
step "building, which takes minutes" nice "${build[@]}" linux
step "stripping" strip "$work/source/linux"
"$work/source/linux" --version >&2 || die "what was built does not start"
mkdir -p "${made%/*}"
cp "$work/source/linux" "$made.new"
mv "$made.new" "$made" # whole or not at all
echo "$made"
