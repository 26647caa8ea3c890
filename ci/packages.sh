#!/usr/bin/env bash
# Check the Debian packages given as arguments. Name those that are missing and install them with
# apt, as root. Ask first, unless YES=1 or CI is set. Start none of their daemons. End with 1 if a
# package is still missing. WHO is the name of the caller in messages.
set -euo pipefail

missing=()
for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
        missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

say() { echo "${WHO:-packages}: $*" >&2; }
say "missing packages: ${missing[*]}"
by_hand="apt-get install --no-install-recommends ${missing[*]}"
if [ "$(id -u)" != 0 ]; then
    say "not root; as root: $by_hand"
    exit 1
elif [ "${YES:-}" != 1 ] && [ -z "${CI:-}" ]; then
    if [ ! -t 0 ]; then
        say "no terminal to ask on; type it again with YES=1 in front, or: $by_hand"
        exit 1
    fi
    read -r -p "${WHO:-packages}: install them? [y/N] " answer
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
