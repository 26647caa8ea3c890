"""What a person does next about a case that failed, by its message; see ``remedies.yaml``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from assay import files
from assay.judge import RED
from assay.store.cases import Case


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why messages of one kind keep a case from passing, and what to do next."""

    pattern: str | tuple[str, ...]
    why: str
    next: str

    def fits(self, message: str) -> bool:
        """Whether the message is of this kind."""
        patterns = [self.pattern] if isinstance(self.pattern, str) else self.pattern
        return any(re.search(each, message) for each in patterns)


@cache
def known() -> tuple[Remedy, ...]:
    """The entries of ``remedies.yaml``, in their order."""
    return files.read(Path(__file__).with_name("remedies.yaml"), tuple[Remedy, ...], ValueError)


def of(message: str) -> Remedy | None:
    """The remedy for a message; None if the kind of the message is not known."""
    return next((each for each in known() if each.fits(message)), None)


def lines(cases: Iterable[Case]) -> list[str]:
    """One line for each kind of message of the failed and undecided cases, in their order."""
    found = (of(case.why) for case in cases if case.verdict in RED)
    counts = Counter(remedy for remedy in found if remedy)
    return [
        f"next ({count} {'case' if count == 1 else 'cases'}): {remedy.why} {remedy.next}"
        for remedy, count in counts.items()
    ]
