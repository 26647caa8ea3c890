"""What a person does next about a case that failed, by its message; see ``remedies.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from assay import files
from assay.judge import RED
from assay.results.cases import Case


class Remedy(NamedTuple):
    """Why messages of one kind keep a case from passing, and what to do next."""

    pattern: str
    why: str
    next: str


@cache
def known() -> tuple[Remedy, ...]:
    """The entries of ``remedies.yaml``, in their order."""
    entries = files.read_yaml(Path(__file__).with_name("remedies.yaml"), ValueError)
    found = []
    for entry in entries:
        said = entry["pattern"]
        pattern = said if isinstance(said, str) else "|".join(said)
        found.append(Remedy(pattern, entry["why"], entry["next"]))
    return tuple(found)


def of(message: str) -> Remedy | None:
    """The remedy for a message; None if the kind of the message is not known."""
    return next((each for each in known() if re.search(each.pattern, message)), None)


def lines(cases: Iterable[Case]) -> list[str]:
    """One line for each kind of message of the failed and undecided cases, in their order."""
    counts: dict[Remedy, int] = {}
    for case in cases:
        if case.verdict in RED and (remedy := of(case.why)):
            counts[remedy] = counts.get(remedy, 0) + 1
    return [
        f"next ({count} {'case' if count == 1 else 'cases'}): {remedy.why} {remedy.next}"
        for remedy, count in counts.items()
    ]
