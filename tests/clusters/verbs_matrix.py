"""Faults of a cluster with verbs against the suite: what is caught, and whether it is named.

`python tests/clusters/verbs_matrix.py`, as root, while a cluster is up that was started by
`vcluster up --machines uml --nodes 3 --rails 2`. Each run is a line of docs/verbs-faults.jsonl, and
from this file it writes a part of docs/sensitivity.md. A run that is already in the file is not
repeated. The fault of an unused rail needs the C programs of OSU on PATH; without them it is left
out.
"""

from __future__ import annotations

import shutil

import cluster_page
from cluster_matrix import NODE, Fault, Matrix, arguments, measure, severities

RUNS = cluster_page.ROOT / "docs/verbs-faults.jsonl"
BEGIN, END = "<!-- begin: verbs faults -->", "<!-- end: verbs faults -->"

#: Nodes and links over verbs, and both rails.
TESTS = r"Tournament.*ud_verbs|Census|NodeHealth|IbPerftest|OsuRails"

OSU = shutil.which("osu_bw")


def of_node(kind: str, severity: str, *words: str, during: bool = False) -> Fault:
    return Fault(kind, severity, words, during=during, tests=TESTS)


FAULTS = [
    # The fastest of these nodes moves 300 Mbit/s.
    *severities("link rate", "rate", {"40 Mbit/s": "40mbit"}, tests=TESTS),
    *severities("link latency", "delay", {"+100 us": "100"}, tests=TESTS),
    *severities("packet loss", "loss", {"0.1 %": "0.1%", "1 %": "1%"}, tests=TESTS),
    *severities("slow processor", "cpu", {"30 % of a core": "30"}, tests=TESTS),
    of_node("GID wrong", "", "gid", NODE),
    of_node("rail down", "", "rail-down", NODE),
    *severities("rail rate", "rail-rate", {"40 Mbit/s": "40mbit"}, tests=TESTS),
    *[Fault("rail unused", "", program=("osu_bw", "export UCX_MAX_RNDV_RAILS=1"), tests=TESTS)
      for _ in [OSU] if OSU],
    of_node("rank hangs", "in a job", "hang", NODE, "ucx_perftest", during=True),
    of_node("node crashes", "in a job", "crash", NODE, during=True),
    of_node("cable out", "", "link-down", NODE),
    of_node("slurmd dead", "", "slurmd", NODE),
    of_node("node drained", "", "drain", NODE),
]  # fmt: skip


def document() -> str:
    """The generated part of docs/sensitivity.md."""
    found = cluster_page.groups(cluster_page.load(RUNS))
    healthy = found.pop(("healthy", ""), [])
    lines = cluster_page.healthy_lines(healthy) if healthy else []
    return "\n".join([BEGIN, "", *lines, *cluster_page.table(found), "", END])


def main() -> None:
    options = arguments(__doc__, runs=1, healthy=3).parse_args()
    if not options.page:
        measure(Matrix(FAULTS, "vcluster-uml", RUNS), options)
    page = cluster_page.PAGE
    page.write_text(cluster_page.replaced(page.read_text(), document(), BEGIN, END))


if __name__ == "__main__":
    main()
