"""munged, which lets the machines authenticate each other's users."""

import os
import pwd
import shutil

from commands import daemon, wait
from layout import STATE, Refusal

FOLDER = STATE / "munge"
SOCKET = FOLDER / "socket"


def start(secret=None, log="munged"):
    """Starts one munged for all machines. Its socket has a path that all machines see.

    A node that has a kernel of its own has a munged of its own: a socket belongs to one kernel.

    :param secret: the key of the cluster; else a new one.
    :param log: name of the file below the state's `log`.
    :raises Refusal: it is not installed, or does not start.
    """
    try:
        user = pwd.getpwnam("munge")
    except KeyError:
        raise Refusal("munge is not installed; type: lab/vcluster/packages.sh") from None
    if secret is None:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(mode=0o755)
    key = FOLDER / "key"
    key.touch(mode=0o600)
    key.write_bytes(secret or os.urandom(1024))
    for path in (FOLDER, key):
        os.chown(path, user.pw_uid, user.pw_gid)
    daemon(
        [
            *("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"),
            *("munged", "--foreground", f"--key-file={key}", f"--socket={SOCKET}"),
            *(f"--pid-file={FOLDER}/pid", f"--log-file={FOLDER}/log"),
            f"--seed-file={FOLDER}/seed",
        ],
        log=log,
    )
    late = f"munged does not start: see {STATE}/log/{log} and {FOLDER}/log"
    wait(SOCKET.exists, 20, lambda: late)
