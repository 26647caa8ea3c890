#!/usr/bin/env bash
# Sourced by the other image*.sh. Afterwards, `apptainer` is a command that works here.

name=$(basename "$0" .sh)
die() {
    echo "$name: $*" >&2
    exit 1
}
say() { echo "$name: $*"; }

APPTAINER=$(ci/apptainer.sh --no-build) || exit 1
apptainer() { "$APPTAINER" "$@"; }

# Root in a container is given all capabilities. This fails if root outside lacks one. Sandboxes
# take away CAP_SYS_RESOURCE (24).
if [ "$(id -u)" = 0 ] &&
    (((0x$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status) >> 24 & 1) == 0)); then
    export APPTAINER_DROP_CAPS=CAP_SYS_RESOURCE
fi
