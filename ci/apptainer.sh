#!/usr/bin/env bash
# Print the path of an Apptainer: the one on PATH, else the one in the cache, else, on Debian, one
# built from the source in Debian's archive (ci/apptainer-pin.txt). Other systems get one line that
# says why there is none.
#
#   ci/apptainer.sh [--no-build]     --no-build: only an Apptainer that is there already
#
#   YES=1   install missing packages without asking (so does CI, if set, as root)
#
# The build takes some minutes. It has no setuid program, so its users need user namespaces.
set -euo pipefail

cd "$(dirname "$0")/.."
die() {
    echo "apptainer: $*" >&2
    exit 1
}
say() { echo "apptainer: $*" >&2; } # standard output is the answer

pinned() { sed -n "s/^$1 //p" ci/apptainer-pin.txt; }
version=$(pinned version)
home=.cache/apptainer # its content can be moved
made=$home/$version-$(pinned sha256 | cut -c1-12)-$(uname -m)

if command -v apptainer; then
    exit
fi
if [ -x "$made/bin/apptainer" ]; then
    "$made/bin/apptainer" --version >/dev/null ||
        die "$made/bin/apptainer does not start, see above; remove $made to build it anew"
    realpath "$made/bin/apptainer"
    exit
fi
[ "${1:-}" != --no-build ] || die "none on PATH and none in $home: type ci/apptainer.sh"

# Only the packages that the source needs are installed from Debian. Go fetches its own modules.
helper=/usr/lib/apt/apt-helper
[ -x "$helper" ] || die "none on PATH, and it is built here on Debian only: install Apptainer"
WHO=apptainer ci/packages.sh gcc libc6-dev make pkg-config libseccomp-dev squashfs-tools uidmap ||
    die "its build needs the packages named above"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/assay-apptainer.XXXXXX") # its makefile knows no blanks
# Go's module cache is read-only: rm cannot remove it without chmod.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# Go before 1.21 cannot fetch the release that the source needs. Debian's backports have a newer Go.
# It is unpacked for the time of the build only, and not installed.
fetch_go() { # fetch_go RELEASE, the version of Debian
    local package=golang-${needs%.*} lists=$work/apt
    mkdir -p "$lists/parts" "$lists/lists/partial" "$work/debs"
    ci/debian-archive.sh "$1" | awk '!done++ {$3 = $3 "-backports"; $4 = "main"; NF = 4; print}' \
        >"$lists/parts/backports.list"
    chmod -R a+rX "$work" # apt downloads as a user of its own
    local options=(-q -y -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$lists/parts"
        -o Dir::State::lists="$lists/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o APT::Sandbox::User=root)
    say "fetching $package from Debian's backports"
    { apt-get "${options[@]}" update &&
        (cd "$work/debs" && apt-get "${options[@]}" download "$package-go" "$package-src") &&
        ls "$work"/debs/*.deb; } >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        die "no Go to build it with: install golang-go of Debian's backports"
    }
    local each
    for each in "$work"/debs/*.deb; do
        dpkg-deb -x "$each" "$work/go"
    done
    export PATH="$work/go/usr/lib/${package/golang/go}/bin:$PATH"
}

needs=$(pinned go)
can_fetch_toolchains() { # Go 1.21 and newer
    local has
    has=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || return 1
    [ "$(printf '%s\n' 1.21 "${has#go}" | sort -V | head -n 1)" = 1.21 ]
}
can_fetch_toolchains || fetch_go "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
has=$(GOTOOLCHAIN=local go env GOVERSION)
if [ "$(printf '%s\n' "$needs" "${has#go}" | sort -V | head -n 1)" != "$needs" ]; then
    export GOTOOLCHAIN=go$needs+auto # Go 1.21 and newer fetches it, and verifies it
fi

# The first archive that apt reads holds the pool. Any release will do.
read -r _ mirror _ < <(ci/debian-archive.sh sid) || exit 1

mkdir -p "$home"
home=$(realpath "$home") made=$home/${made##*/}
source=apptainer_$version.orig.tar.gz
say "fetching $source"
"$helper" download-file "${mirror%/}/pool/main/a/apptainer/$source" "$work/$source" \
    "SHA256:$(pinned sha256)" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    die "$source could not be had, or is another than ci/apptainer-pin.txt names; see above"
}

tar -xzf "$work/$source" -C "$work"
cd "$work/apptainer-$version"
echo "$version" >VERSION
# The makefile of Apptainer empties Go's build cache. It must not empty the user's.
export GOFLAGS=-buildvcs=false GOCACHE=$work/gocache GOMODCACHE=$work/gomod
step() { # step WHAT COMMAND...
    local what=$1
    shift
    say "$what"
    "$@" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        die "$what failed, see above"
    }
}
step "fetching Go modules" go mod download
# The prefix is never used: a program that is not where it was built looks beside itself.
step "configuring" ./mconfig -V "$version" --prefix="$work/installed" \
    --without-suid --without-network --without-libsubid
# Without these, bash completions and man pages would compile everything again.
targets=({bash_completions,man_pages}{,_INSTALL}"=")
step "building, which takes minutes" make -C builddir -j"$(nproc)" "${targets[@]}"
step "installing" make -C builddir install "${targets[@]}"
"$work/installed/bin/apptainer" --version >&2 || die "what was built does not start"
rm -rf "$made.new"
cp -R "$work/installed" "$made.new"
mv "$made.new" "$made" # whole or not at all
echo "$made/bin/apptainer"
