#!/usr/bin/env bash
# Run a command as a user that may build images: unprivileged, with a range of subordinate ids.
#
#   ci/image-user.sh DIR COMMAND...     in DIR, which is given to that user
#
# This user is the caller. For root, it is a user that exists only in a mount namespace, until the
# command ends: nothing in /etc is changed. COMMAND must be in a place that this user can reach.
set -euo pipefail

die() {
    echo "image: $*" >&2
    exit 1
}
[ $# -ge 2 ] || die "usage: ci/image-user.sh DIR COMMAND..."
work=$(realpath "$1")
shift
command -v newuidmap >/dev/null || die "no newuidmap: install uidmap"

if [ "$(id -u)" != 0 ]; then
    for file in /etc/subuid /etc/subgid; do
        # The ids may come from a directory service instead; getsubids then knows them.
        grep -qsE "^($(id -un)|$(id -u)):" "$file" || getsubids "$(id -un)" >/dev/null 2>&1 ||
            die "$(id -un) has no range of ids in $file;" \
                "as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)"
    done
    cd "$work"
    exec "$@"
fi

name=assay-image id=64900 range=1879048192:65536
! getent passwd "$id" >/dev/null || die "the user id $id is taken by $(getent passwd "$id")"
etc=$work/.etc
mkdir -p "$etc"
for file in passwd group subuid subgid; do
    [ -e "/etc/$file" ] || die "/etc/$file does not exist: install passwd and uidmap"
    cp "/etc/$file" "$etc/$file"
done
echo "$name:x:$id:$id::$work:/bin/sh" >>"$etc/passwd"
echo "$name:x:$id:" >>"$etc/group"
echo "$name:$range" | tee -a "$etc/subuid" >>"$etc/subgid"
chmod 755 "$work"
chown -R "$id:$id" "$work"

# shellcheck disable=SC2016 # the inner shell expands these
exec unshare --mount --propagation private bash -euc '
    work=$1 id=$2
    shift 2
    for file in "$work"/.etc/*; do mount --bind "$file" "/etc/${file##*/}"; done
    cd "$work"
    exec setpriv --reuid "$id" --regid "$id" --clear-groups --inh-caps=-all \
        env HOME="$work" "$@"' bash "$work" "$id" "$@"
