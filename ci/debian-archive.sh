#!/usr/bin/env bash
# Print the Debian archives that this machine's apt reads, as lines of a sources.list for RELEASE.
#
#   ci/debian-archive.sh RELEASE      such as bookworm; this machine may run another release
set -euo pipefail

command -v apt-get >/dev/null || {
    echo "debian-archive: no apt-get here" >&2
    exit 1
}
# shellcheck disable=SC2016 # apt-get expands these
found=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' \
    'Created-By: Packages' 'Component: main' |
    awk -v here="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" -v want="$1" '
        $1 == "Debian" && sub("^" here, want, $3) && !seen[$2 $3]++ {
            print "deb " $2 " " $3 " main non-free"
        }')
[ -n "$found" ] || {
    echo "debian-archive: apt knows no archive of Debian: type apt-get update" >&2
    exit 1
}
echo "$found"
