"""One emulated machine: namespaces of its own, and a first process that keeps it alive.

A machine has its own network, host name, processes, mounts, ``/tmp``, ``/dev/shm`` and control
group. The rest of the file system is the host's. All machines share it. If the nodes have a kernel
of their own (uml.py), it runs in such a machine.
"""

import os
import signal
import sys
from pathlib import Path

import agent
import cgroups
import network
from commands import daemon, run, wait
from layout import CHECKOUT, HERE, STATE, Refusal, namespace


def boot(name):
    """Starts a machine. Its first process, ``init.py``, starts its daemons."""
    ready(name).unlink(missing_ok=True)
    daemon(
        [
            *("nsenter", f"--net=/run/netns/{namespace(name)}"),
            *("unshare", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child"),
            *("--mount-proc", sys.executable, HERE / "init.py", name),
        ],
        log=f"boot.{name}",
        before=lambda: cgroups.enter(name),
    )


def await_boot(cluster, name):
    """Waits until the machine has made its world.

    :raises Refusal: the machine did not start; the message has the last line of its log.
    """

    def late():
        log = (STATE / "log" / f"boot.{name}").read_text().strip()
        return f"{name} does not start: {log.splitlines()[-1] if log else 'no word'}"

    # A database takes its time; a kernel has a limit of its own (guest.BOOT_S), which ends before.
    limit = 90 * cluster.patience if cluster.has_kernel(name) else 30
    wait(ready(name).exists, limit, late)


def ready(name):
    """The file that a machine makes when its world is ready."""
    return STATE / "run" / f"ready.{name}"


def first_process(name):
    """The machine's PID 1 as the host counts it; None if the machine is down."""
    for pid in network.processes(namespace(name)):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        if len(numbers) == 3 and numbers[-1] == "1":
            return pid
    return None


def processes(name, program="", uid=None):
    """Processes of a machine (of one user) whose program name begins with `program`."""
    found = []
    for pid in network.processes(namespace(name)):
        try:
            process = Path("/proc", str(pid))
            called = (process / "comm").read_text().strip()
            owner = process.stat().st_uid
        except OSError:
            continue
        if called.startswith(program) and uid in (None, owner):
            found.append(pid)
    return found


def crash(name):
    """Simulates a power failure: everything in the machine dies at once."""
    pid = first_process(name)
    if pid is None:
        raise Refusal(f"{name} is down already; lab/vcluster/vcluster clear starts it again")
    ready(name).unlink()
    os.kill(pid, signal.SIGKILL)


def command(cluster, name, words, as_root=False):
    """The command line that runs `words` in a machine, in this directory."""
    pid = first_process(name)
    if pid is None:
        raise Refusal(f"{name} is down; lab/vcluster/vcluster clear starts it again")
    if cluster.has_kernel(name):
        ids = (0, 0) if as_root else (cluster.uid, cluster.gid)
        return agent.command(pid, cluster.number(name), ids, words)
    user = [
        *("setpriv", f"--reuid={cluster.uid}", f"--regid={cluster.gid}", "--clear-groups"),
        *("--inh-caps=-all", "--no-new-privs"),
    ]
    # --wdns, not --wd: --wd is opened outside, and would lead out of the machine's mounts.
    return [
        *("nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", f"--wdns={Path.cwd()}"),
        *([] if as_root else user),
        *words,
    ]


def environment(cluster, as_root=False):
    """The caller's variables, with the settings of the user in the machine."""
    user = "root" if as_root else cluster.user
    home = "/root" if as_root else str(STATE / "home")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SUDO_", "XDG_"))}
    return {
        **kept,
        "USER": user,
        "LOGNAME": user,
        "HOME": home,
        # The checkout may belong to another user. git would then refuse to name its commit.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(CHECKOUT),
    }


def ask(cluster, name, *words, check=True):
    """Runs a command as root in a machine and returns what it prints."""
    return run(*command(cluster, name, words, as_root=True), check=check)
