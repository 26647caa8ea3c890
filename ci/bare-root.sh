#!/usr/bin/env bash
# A Debian machine on which nothing was installed by hand: a root file system made by mmdebstrap.
# Commands run in it as on a separate machine.
#
#   ci/bare-root.sh make RELEASE TAR PACKAGE...   minbase of RELEASE (bookworm) with the PACKAGEs
#   ci/bare-root.sh unpack TAR DIR                a new root in DIR, with this machine's registries
#   ci/bare-root.sh run DIR COMMAND...            as root in it, in /root, with an empty environment
#
# A root shares this machine's kernel, network, /dev and /sys. It also gets the settings of this
# machine for sources of packages: apt's archives and options, pip's and npm's index, Go's proxy and
# the CA bundle. Needs root. `make` needs mmdebstrap. All processes that `run` started end with it.
set -euo pipefail

die() {
    echo "bare-root: $*" >&2
    exit 1
}
here=$(cd "$(dirname "$0")" && pwd)

make_root() {
    local release=$1 tar=$2
    shift 2
    command -v mmdebstrap >/dev/null || die "no mmdebstrap here: apt-get install mmdebstrap"
    mkdir -p "$(dirname "$tar")"
    # A bare machine reads only Debian's component main. The list of a testing release is valid for a
    # week, and a mirror may hold an older one.
    "$here/debian-archive.sh" "$release" | sed 's/ non-free$//' |
        mmdebstrap --quiet --format=tar --variant=minbase --include="$(IFS=,; echo "$*")" \
            --aptopt='Acquire::Check-Valid-Until "false"' "$release" "$tar.new" - ||
        die "mmdebstrap could not make $release, see above"
    mv "$tar.new" "$tar" # whole or not at all
}

# Ask the clients themselves: their settings may be in files or in the environment.
registries() { # registries DIR: write into the root where packages come from
    local root=$1 bundle=/etc/ssl/certs/ca-certificates.crt key value
    mkdir -p "$root${bundle%/*}"
    [ ! -e "$bundle" ] || cat "$bundle" >"$root$bundle"
    apt-config dump | grep -E '^Acquire::(Check-|https?::)' >"$root/etc/apt/apt.conf.d/99registry" || true
    echo "[global]" >"$root/etc/pip.conf"
    for key in index-url extra-index-url trusted-host cert timeout; do
        value=$(python3 -m pip config get "global.$key" 2>/dev/null) || continue
        echo "$key = $value" >>"$root/etc/pip.conf"
    done
    if command -v npm >/dev/null; then
        echo "registry=$(npm config get registry 2>/dev/null)" >"$root/etc/npmrc"
    fi
    if command -v go >/dev/null; then
        mkdir -p "$root/root/.config/go"
        printf '%s\n' "GOPROXY=$(go env GOPROXY)" "GOSUMDB=$(go env GOSUMDB)" >"$root/root/.config/go/env"
    fi
}

unpack() {
    local tar=$1 root=$2
    [ ! -e "$root" ] || die "$root is there already"
    mkdir -p "$root"
    tar -C "$root" --numeric-owner -xf "$tar"
    # Both may be links whose targets do not exist in the new root.
    cp --remove-destination -L /etc/resolv.conf "$root/etc/resolv.conf"
    printf '%s\n' '127.0.0.1 localhost fresh' >"$root/etc/hosts"
    echo fresh >"$root/etc/hostname"
    registries "$root"
}

# A chroot is not enough. `ip netns` wants / to be a mount point. nsenter into one of its mount
# namespaces leads to the root of that namespace, which would be the root of this machine.
enter() { # the part of `run` that has namespaces of its own
    local root=$1
    shift
    mount --rbind "$root" "$root"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777,nosuid,nodev shm "$root/dev/shm"
    mount --rbind /sys "$root/sys"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755,nosuid,nodev run "$root/run"
    hostname fresh
    mkdir -p "$root/.host"
    cd "$root"
    pivot_root . .host
    umount --lazy /.host
    rmdir /.host
    cd /root
    exec env -i HOME=/root USER=root LOGNAME=root TERM=dumb LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

case ${1:-} in
make) [ $# -ge 3 ] && make_root "${@:2}" ;;
unpack) [ $# -eq 3 ] && unpack "$2" "$3" ;;
run)
    [ $# -ge 3 ] || die "run DIR COMMAND..."
    [ "$(id -u)" = 0 ] || die "it makes namespaces and mounts: run it as root"
    root=$(realpath "$2")
    exec unshare --mount --uts --ipc --pid --fork --kill-child --propagation private \
        "$here/bare-root.sh" enter "$root" "${@:3}"
    ;;
enter) enter "${@:2}" ;;
*) die "make RELEASE TAR PACKAGE... | unpack TAR DIR | run DIR COMMAND..." ;;
esac
