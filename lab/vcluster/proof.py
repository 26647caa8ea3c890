"""Shows that `up` keeps its promise: MPI by srun, UCX between two nodes, shared files."""

import subprocess
import time

import machine
from commands import run
from layout import CHECKOUT, GLUSTER, STATE, Refusal

#: Ranks of the MPI world, spread over the nodes.
RANKS = 4

#: Time limit of each part [s]. On a quiet machine a part takes less than one second.
LIMIT_S = 30

PYTHON = CHECKOUT / ".venv/bin/python"
#: What UCX must send messages over, with its variables; and what nodes with a kernel add to it.
TCP = ("tcp", {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"})
VERBS = ("rc_verbs", {"UCX_TLS": "rc_v,self", "UCX_IB_GID_INDEX": "0"})
PACKAGES = "ci/system-stack.sh && lab/vcluster/packages.sh"


def show(cluster):
    """All parts. UCX needs two nodes, and files a parallel file system.

    :raises Refusal: a part failed; the message says which one, and what to type.
    """
    world(cluster)
    if cluster.nodes > 1:
        over = [(VERBS[0], {**VERBS[1], "UCX_NET_DEVICES": f"rxe{rail}:1"})
                for rail in range(cluster.rails) if cluster.kernel]  # fmt: skip
        for transport, variables in [TCP, *over]:
            ping(cluster, *cluster.node_names[:2], transport, variables)
    if cluster.shared:
        files(cluster)


def world(cluster):
    """Ranks that an ordinary user starts on the login machine find each other."""
    if not PYTHON.exists():
        raise Refusal(f"{PYTHON} is missing, no MPI program can be tried; type: make venv")
    nodes = min(RANKS, cluster.nodes)
    ranks = nodes if cluster.kernel else RANKS  # such a node has one core
    words = [
        *("srun", "--mpi=pmix", f"--nodes={nodes}", f"--ntasks={ranks}", "--overcommit"),
        *(PYTHON, "-m", "mpi4py.bench", "helloworld"),
    ]
    what = f"{ranks} MPI ranks on {nodes} nodes by srun --mpi=pmix"
    said = _as_user(cluster, what, "login", words, OMPI_MCA_mpi_yield_when_idle="1")
    lines = [line for line in said.splitlines() if f" of {ranks} on " in line]
    hosts = {line.rpartition(" ")[2].rstrip(".") for line in lines}
    if len(lines) != ranks or len(hosts) != nodes:
        first = next(iter(said.splitlines()), "nothing")
        raise Refusal(f"{what} are not one world: they say {first!r}; type: {PACKAGES}")


def ping(cluster, one, other, transport, variables):
    """UCX's own latency test over a transport, from one node to another."""
    what = f"UCX over {transport} from {other} to {one}"
    environment = {**machine.environment(cluster), **variables}
    server = machine.command(cluster, one, ["ucx_perftest"])
    with (STATE / "log/ucx_perftest").open("w") as log:
        listening = subprocess.Popen(server, env=environment, stdout=log, stderr=log)
    words = ["ucx_perftest", one, "-t", "tag_lat", "-n", "100", "-w", "10"]
    end = time.monotonic() + 5 * cluster.patience
    try:
        while True:
            try:
                said = _as_user(cluster, what, other, words, **variables)
                break
            except Refusal:
                # The server may not have listened yet. Try again unless it has ended.
                if time.monotonic() > end or listening.poll() is not None:
                    raise
            time.sleep(0.05)
    finally:
        listening.kill()
        listening.wait()
    if "Final:" not in said:
        raise Refusal(f"{what} has no result; type: {PACKAGES}")


def files(cluster):
    """All machines read what the ordinary user writes into the parallel file system on a node."""
    file = GLUSTER / ".proof"

    def at(name, *words):
        return run(*machine.command(cluster, name, [*words, str(file)]), seconds=LIMIT_S)

    first = cluster.node_names[0]
    run(*machine.command(cluster, first, ["tee", str(file)]), given=file.name, seconds=LIMIT_S)
    for name in cluster.names:
        if at(name, "cat") != file.name:
            raise Refusal(f"{name} does not read what {first} wrote: {file}; see {STATE}/log")
    at(first, "rm")


def _as_user(cluster, what, name, words, **variables):
    """The output of a command that the ordinary user runs on a machine."""
    try:
        return run(
            *machine.command(cluster, name, words),
            env={**machine.environment(cluster), **variables},
            seconds=LIMIT_S * cluster.patience,
        )
    except Refusal as refusal:
        # Leave out the words that lead into the machine: they do not help the reader.
        _, _, cause = str(refusal).partition(f"{words[0]} ")
        raise Refusal(f"{what} failed: {words[0]} {cause}; type: {PACKAGES}") from None
