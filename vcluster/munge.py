"""munged, which lets the machines authenticate each other's users."""

import os
import pwd
import shutil

from commands import daemon, wait
from layout import STATE, Refusal

FOLDER = STATE / "munge"
SOCKET = FOLDER / "socket"


def start():
    """Starts one munged for all machines. Its socket has a path that all machines see.

    :raises Refusal: it is not installed, or does not start.
    """
    try:
        user = pwd.getpwnam("munge")
    except KeyError:
        raise Refusal("munge is not installed; type: vcluster/packages.sh") from None
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(mode=0o755)
    key = FOLDER / "key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    for path in (FOLDER, key):
        os.chown(path, user.pw_uid, user.pw_gid)
    daemon(
        [
            *("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"),
            *("munged", "--foreground", f"--key-file={key}", f"--socket={SOCKET}"),
            *(f"--pid-file={FOLDER}/pid", f"--log-file={FOLDER}/log"),
            f"--seed-file={FOLDER}/seed",
        ],
        log="munged",
    )
    late = f"munged does not start: see {STATE}/log/munged and {FOLDER}/log"
    wait(SOCKET.exists, 5, lambda: late)
