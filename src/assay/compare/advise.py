"""What rank 0 of a job asks while the job runs: who has a second look, and which pairs meet next.

``python -m assay.compare.advise WHAT ARGUMENTS`` prints the answer as JSON. For a sweep over units
the arguments are the log of the job and the tolerance, for pairs of nodes the plan and the log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from assay.compare import bisection, cores, gpus, storage
from assay.compare.tournament import measured

ADVISERS: Mapping[str, Callable[[str, str], Any]] = {
    "disks": storage.DISKS.advice,
    "servers": storage.SERVERS.advice,
    "cores": cores.CORES.advice,
    "gpus": gpus.GPUS.advice,
    "tournament": measured.advice,
    "draw": measured.draw,
    "bisection": bisection.advice,
}


def command(adviser: Callable[[str, str], Any], *arguments: str) -> list[str]:
    """The command that asks one of them."""
    (what,) = (name for name, its in ADVISERS.items() if its == adviser)
    return [sys.executable, "-m", __name__, what, *arguments]


if __name__ == "__main__":
    try:
        json.dump(ADVISERS[sys.argv[1]](*sys.argv[2:]), sys.stdout)
    except ValueError as error:
        sys.exit(str(error))
