"""Faults of a cluster with verbs against the suite: what is caught, and whether it is named.

`python lab/tests/clusters/verbs_matrix.py`, as root, while a cluster is up that was started by
`vcluster up --machines uml --nodes 3 --rails 2`. Each run is a line of docs/verbs-faults.jsonl, and
from this file it writes a part of docs/sensitivity.md, and docs/faults/verbs-cluster.csv. A run
that is already there is not repeated. The fault of an unused rail needs the C programs of OSU on
PATH; without them it is left out.
"""

from __future__ import annotations

import shutil

import cluster_page
import fault_tables
from cluster_matrix import NODE, Fault, Matrix, arguments, measure, severities

RUNS = cluster_page.ROOT / "docs/verbs-faults.jsonl"
TABLE = fault_tables.file("verbs-cluster")
BEGIN, END = "<!-- begin: verbs faults -->", "<!-- end: verbs faults -->"

#: The tests of nodes and links over verbs, and those of the two rails, and where they run. The last
#: ones measure what UCX does with the rails, between two nodes.
NODES = {"tests": r"Tournament.*ud_verbs|Census|NodeHealth", "partition": "verbs"}
RAILS = {"tests": r"Census|NodeHealth|IbPerftest", "partition": "rails"}
USE = {"tests": r"OsuRails", "partition": "rails"}

#: Without a fault, the same tests run.
HEALTHY = (
    Fault("healthy", "nodes", **NODES),
    Fault("healthy", "rails", **RAILS),
    Fault("healthy", "use of the rails", **USE),
)

OSU = shutil.which("osu_bw")


def of_node(kind: str, *words: str, severity: str = "", during: bool = False) -> Fault:
    return Fault(kind, severity, words, during=during, **NODES)


FAULTS = [
    # The fastest of these nodes moves 300 Mbit/s.
    *severities("link rate", "rate", {"40 Mbit/s": "40mbit"}, **NODES),
    *severities("link latency", "delay", {"+100 us": "100"}, **NODES),
    *severities("packet loss", "loss", {"1 %": "1%", "0.1 %": "0.1%"}, **NODES),
    *severities("slow processor", "cpu", {"30 % of a core": "30"}, **NODES),
    of_node("GID wrong", "gid", NODE),
    of_node("node drained", "drain", NODE),
    of_node("slurmd dead", "slurmd", NODE),
    of_node("cable out", "link-down", NODE),
    of_node("node crashes", "crash", NODE, severity="in a job", during=True),
    of_node("rank hangs", "hang", NODE, "ucx_perftest", severity="in a job", during=True),
    Fault("rail down", "", ("rail-down", NODE), **RAILS),
    *severities("rail rate", "rail-rate", {"40 Mbit/s": "40mbit"}, **RAILS),
    *[Fault("rail unused", "", program=("osu_bw", "export UCX_MAX_RNDV_RAILS=1"), **USE)
      for _ in [OSU] if OSU],
]  # fmt: skip


def document() -> str:
    """The generated part of docs/sensitivity.md."""
    found = cluster_page.groups(cluster_page.load(RUNS))
    if not found:
        return "\n".join([BEGIN, "", "No run yet.", "", END])
    healthy = [run for each in HEALTHY for run in found.pop((each.kind, each.severity), [])]
    lines = cluster_page.healthy_lines(healthy) if healthy else []
    return "\n".join([BEGIN, "", *lines, cluster_page.sums(found), "", END])


def main() -> None:
    options = arguments(__doc__, runs=1, healthy=3).parse_args()
    if not options.page:
        measure(Matrix(FAULTS, HEALTHY, "vcluster-uml", RUNS), options)
    page = cluster_page.PAGE
    page.write_text(cluster_page.replaced(page.read_text(), document(), BEGIN, END))
    TABLE.write_text(cluster_page.written(cluster_page.load(RUNS)))


if __name__ == "__main__":
    main()
