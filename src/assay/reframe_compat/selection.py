"""How words select partitions: by their features alone, and places for the suite alone.

ReFrame takes ``+gpu`` also for a resource or an extra of that name. A test of the suite says by
``+intra-node``, ``+inter-node`` or ``+storage`` what place it needs. Only such a test looks at the
features alone, so any other test selects as ReFrame says.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

#: The words of which each place has one.
PLACES = ("intra-node", "inter-node", "storage")

#: Full names of the places that only such a test selects.
_only: set[str] = set()


def reserve(places: Iterable[str]) -> None:
    """Keeps any other test, such as one for all partitions (``*``), from ``system:partition``."""
    _only.update(places)


def _is_valid_part(of_reframe: Any, part: Any, valid_systems: Sequence[str]) -> bool:
    kept = []
    for said in valid_systems:
        words = said.split()
        if not {f"+{word}" for word in PLACES} & {*words}:
            kept += [] if part.fullname in _only else [said]
        elif all((w[0] == "+") is (w[1:] in part.features) for w in words if w[0] in "+-"):
            kept.append(" ".join(w for w in words if w[0] not in "+-") or "*")
    return bool(of_reframe(part, kept))


def install() -> None:
    """Wraps ReFrame's function that compares a partition with ``valid_systems``."""
    # The import is here because the words are also read on machines without ReFrame.
    from reframe.core import runtime  # noqa: PLC0415

    runtime._is_valid_part = functools.partial(_is_valid_part, runtime._is_valid_part)
