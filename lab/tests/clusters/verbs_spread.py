"""How emulated nodes with verbs behave over restarts, and when packets are lost.

`python lab/tests/clusters/verbs_spread.py restarts|losses [N]`, as root, while no cluster is up
below $ASSAY_VCLUSTER. It prints one JSON object a line. docs/hardware-log.md has what was seen.

`restarts` starts and ends a cluster of two nodes N times (10): the times, the memory of each node,
what is left afterwards, and the median latency over each transport. `losses` starts one of three
nodes, and loses 0, 0.01, 0.1 and 1 % of the packets that arrive at node02: latency and bandwidth
between two nodes, a broadcast among all three, and the counters that grew, N times each (1). The
broadcast needs osu_bcast on PATH; without it, it is left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

import checkout  # noqa: F401 - puts the test modules on the path
from emulated import Cluster, cluster_name
from test_vcluster import traces

from assay.opinions.parse import ucx_perftest
from assay.parse import ParseError, osu
from assay.prove.mpi import OpenMpi

NODES = ("node01", "node02")
WITH_A_THIRD = (*NODES, "node03")

#: Transport -> the variables of UCX that choose it.
VERBS = {"UCX_NET_DEVICES": "rxe0:1", "UCX_IB_GID_INDEX": "0"}
TRANSPORTS = {
    "rc_verbs": {**VERBS, "UCX_TLS": "rc_v,self"},
    "ud_verbs": {**VERBS, "UCX_TLS": "ud_verbs,self"},
    "tcp": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"},
}

#: Test of ucx_perftest -> its options. A launch that takes longer than this has hung [s].
TESTS = {"tag_lat": "-s 8 -n 2000 -w 200", "tag_bw": "-s 65536 -n 300 -w 20"}
LIMIT_S = 40

#: Bytes and number of the broadcasts.
BCAST = "-m 65536:65536 -i 100 -x 10"

LOSSES = ("0", "0.01", "0.1", "1")

#: What a node counts, as lines `name value`.
COUNTERS = (
    "cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . * | tr : ' '; "
    'awk \'/^Tcp/ {sent=$12; again=$13} END {print "tcp_sent", sent; '
    'print "tcp_sent_again", again}\''
    " /proc/net/snmp"
)


def measured(cluster: Cluster, transport: str, *, test: str) -> dict[str, float] | None:
    """The row of ucx_perftest from node02 to node01; None if it did not end, or failed.

    The median latency [us], the bandwidth [MB/s], and the time of the launch [s].
    """
    client = f"ucx_perftest node01 -p 13399 -t {test} {TESTS[test]} -f"
    tries = f"for i in 1 2 3 4 5 6 7 8 9; do {client} && break; sleep 0.5; done"
    script = f'if [ "$SLURM_PROCID" = 0 ]; then ucx_perftest -p 13399; else {tries}; fi'
    said, seconds = launched(cluster, NODES, ["sh", "-c", script], TRANSPORTS[transport])
    try:
        row = ucx_perftest.parse_ucx_perftest(said).rows[-1]
    except (ParseError, IndexError):
        return None
    return {**{name: row[name] for name in ("p50", "bandwidth")}, "seconds": seconds}


def broadcast(cluster: Cluster, transport: str) -> dict[str, float] | None:
    """The row of osu_bcast among three nodes; None if it did not end, or failed.

    Average, least and greatest latency of the ranks [us], and the time of the launch [s].
    """
    program = [shutil.which("osu_bcast") or "", *BCAST.split(), "-f"]
    variables = {**OpenMpi.only_ucx, **OpenMpi.remote_memory, **TRANSPORTS[transport]}
    said, seconds = launched(cluster, WITH_A_THIRD, program, variables)
    try:
        row = osu.parse_osu(said).rows[-1]
    except (ParseError, IndexError):
        return None
    return {**{name: row[name] for name in ("latency", "min", "max")}, "seconds": seconds}


def launched(
    cluster: Cluster, nodes: tuple[str, ...], program: list[str], variables: dict[str, str]
) -> tuple[str, float]:
    """The output of one rank on each node, empty if it did not end; and the time it took [s]."""
    number = str(len(nodes))
    srun = ["srun", "--mpi=pmix", "-w", ",".join(nodes), "-N", number, "-n", number, *program]
    begin = time.monotonic()
    try:
        done = cluster("run", "login", "--", *srun, check=False, timeout=LIMIT_S, **variables)
    except subprocess.TimeoutExpired:
        cluster("clear")
        return "", LIMIT_S
    return done.stdout, round(time.monotonic() - begin, 1)


def memory(state: Path, node: str) -> float:
    """Memory of the host that the processes of a node take [MB]: the sum of their shares (Pss)."""
    space = f"{cluster_name(state)}.{node}"
    pids = subprocess.run(
        ["ip", "netns", "pids", space], capture_output=True, text=True, check=True
    ).stdout.split()
    total = 0
    for pid in pids:
        try:
            text = Path("/proc", pid, "smaps_rollup").read_text()
        except OSError:
            continue
        total += int(re.search(r"^Pss: +(\d+) kB", text, re.M)[1])
    return total * 1024 / 1e6


def counted(cluster: Cluster) -> dict[str, dict[str, int]]:
    """Node -> the counters of its port, and its TCP segments that were sent and sent again."""
    found: dict[str, dict[str, int]] = {}
    for node in NODES:
        said = cluster("run", node, "--", "sh", "-c", COUNTERS).stdout
        found[node] = {name: int(count) for name, count in map(str.split, said.splitlines())}
    return found


def grown(before: dict, after: dict) -> dict[str, dict[str, int]]:
    """The counters that grew."""
    return {
        node: {name: value - before[node].get(name, 0) for name, value in there.items()
               if value > before[node].get(name, 0)}
        for node, there in after.items()
    }  # fmt: skip


def restarts(state: Path, number: int) -> None:
    before = traces(state)  # this program's own callers
    for restart in range(number):
        cluster = Cluster(state)
        begin = time.monotonic()
        cluster("up", "--machines", "uml", "--nodes", str(len(NODES)))
        up = time.monotonic() - begin
        seen = {transport: measured(cluster, transport, test="tag_lat") for transport in TRANSPORTS}
        taken = {node: round(memory(state, node)) for node in NODES}
        begin = time.monotonic()
        cluster("down")
        down = time.monotonic() - begin
        left = [trace for trace in traces(state) if trace not in before]
        times = {"up_s": round(up, 1), "down_s": round(down, 1)}
        row = {"restart": restart, **times, "memory_mb": taken, "left": left, **seen}
        print(json.dumps(row), flush=True)


def losses(state: Path, number: int) -> None:
    cluster = Cluster(state)
    cluster("up", "--machines", "uml", "--nodes", str(len(WITH_A_THIRD)))
    measures = {test: partial(measured, test=test) for test in TESTS}
    if shutil.which("osu_bcast"):
        measures["bcast"] = broadcast
    try:
        for loss in LOSSES:
            if float(loss):
                cluster("fault", "loss", "node02", loss)
            for transport, (test, measure) in product(TRANSPORTS, measures.items()):
                for _ in range(number):
                    before = counted(cluster)
                    row = {"loss_percent": float(loss), "transport": transport, "test": test}
                    seen = measure(cluster, transport)
                    row |= {"seen": seen, "grew": grown(before, counted(cluster))}
                    print(json.dumps(row), flush=True)
    finally:
        cluster("down")


if __name__ == "__main__":
    what, *more = sys.argv[1:]
    home = Path(os.environ.get("ASSAY_VCLUSTER", "/var/tmp/assay-vcluster"))
    chosen, usual = {"restarts": (restarts, 10), "losses": (losses, 1)}[what]
    chosen(home, int(more[0]) if more else usual)
