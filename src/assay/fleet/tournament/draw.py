"""Draws the rounds of a sparse tournament, once the nodes of the job are known.

Rank 0 runs this module as a program before the first round: ``python -m
assay.fleet.tournament.draw plan.json coordinator_log.jsonl`` prints the rounds. Where the topology
is known, half of them are within switches.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from assay.fleet.tournament import schedule
from assay.fleet.tournament.measured import known_fabric
from assay.outputs import coordinator_log


def advice(plan_file: str, log_file: str) -> dict[str, Any]:
    """The rounds as pairs of ranks, for :mod:`assay.onnode.pairs`."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    nodes = coordinator_log.parse(Path(log_file).read_text(encoding="utf-8")).nodes
    limit = plan["sparse"]
    fabric = known_fabric(plan["topology"], nodes)
    if fabric is None:
        return {"again": False, "rounds": schedule.rounds(len(nodes), limit)}
    return {"again": False, "rounds": schedule.by_switch(fabric.leaves(nodes), limit)}


if __name__ == "__main__":
    json.dump(advice(*sys.argv[1:]), sys.stdout)
