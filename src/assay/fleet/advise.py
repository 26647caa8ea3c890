"""What rank 0 of a job asks while the job runs: who has a second look, and which pairs meet next.

``python -m assay.fleet.advise WHAT ARGUMENTS`` prints the answer of a function, or of the sweep of
a class, as JSON. For a sweep over units the arguments are the log of the job and the tolerance, for
pairs of nodes the plan and the log.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from assay.fleet.sweep import Sweep


def advice_command(adviser: Sweep | Callable[[str, str], Any], *arguments: str) -> list[str]:
    """The command that asks one of them."""
    what: Any = type(adviser) if isinstance(adviser, Sweep) else adviser
    return [sys.executable, "-m", __name__, f"{what.__module__}:{what.__qualname__}", *arguments]


if __name__ == "__main__":
    asked = pkgutil.resolve_name(sys.argv[1])
    try:
        json.dump((asked().advice if isinstance(asked, type) else asked)(*sys.argv[2:]), sys.stdout)
    except ValueError as error:
        sys.exit(str(error))
