#!/usr/bin/env bash
# The programs of the emulated cluster, from Debian's packages: name those that are missing and
# install them with apt (as root; YES=1 or CI does not ask). It starts none of their daemons here.
#
#   vcluster/packages.sh [--accounting]     --accounting: MariaDB and slurmdbd too
set -euo pipefail

packages=(
    slurm-wlm slurm-wlm-basic-plugins slurm-client munge # the scheduler
    iproute2 iptables libnetfilter-queue-dev gcc libc6-dev # links: shaped, delayed, broken
    libpmix-dev # libpmix.so, which mpi_pmix_v4.so opens by that name: srun --mpi=pmix
    xfsprogs util-linux # a disk for each node
)
[ "${1:-}" != --accounting ] || packages+=(mariadb-server-core mariadb-client-core slurmdbd)

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
        missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

say() { echo "vcluster packages: $*" >&2; }
say "missing: ${missing[*]}"
by_hand="apt-get install --no-install-recommends ${missing[*]}"
if [ "$(id -u)" != 0 ]; then
    say "not root; as root: $by_hand"
    exit 1
elif [ "${YES:-}" != 1 ] && [ -z "${CI:-}" ]; then
    if [ ! -t 0 ]; then
        say "no terminal to ask on; type YES=1 make vcluster-up, or: $by_hand"
        exit 1
    fi
    read -r -p "vcluster packages: install them? [y/N] " answer
    [[ $answer == [yY]* ]] || exit 1
fi

# Debian starts a daemon when its package is installed, unless this file forbids it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
install() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "${missing[@]}" </dev/null
}
# The lists may be older than the mirror, or missing: update once and try once more.
install >&2 || { apt-get -q update >&2 && install >&2; }
