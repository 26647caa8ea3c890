"""What a person does next about a case that failed, by its message; see ``remedies.yaml``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from assay import files
from assay.judge import RED
from assay.store.cases import Case, grouped

#: What a name from a record must be to go into a command.
NAME = re.compile(r"[A-Za-z0-9._-]+")


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why messages of one kind keep a case from passing, and what to do next."""

    pattern: str | tuple[str, ...]
    why: str
    next: str

    def fits(self, message: str) -> bool:
        patterns = [self.pattern] if isinstance(self.pattern, str) else self.pattern
        return any(re.search(each, message) for each in patterns)


@cache
def known() -> tuple[Remedy, ...]:
    """The entries of ``remedies.yaml``, in their order."""
    return files.own(__file__, tuple[Remedy, ...])


def remedy_for(message: str) -> Remedy | None:
    """The remedy for a message; None if the kind of the message is not known."""
    return next((each for each in known() if each.fits(message)), None)


def again(system: str, tests: Iterable[str], options: str = "") -> str:
    """The command that measures these tests again at a site; all of them if no name is known."""
    pattern = "|".join(f"^{test}" for test in sorted(set(tests)) if test.isidentifier())
    words = " ".join(filter(None, [pattern and f"-n '{pattern}'", options]))
    given = f' REFRAME_ARGS="{words}"' if words else ""
    return f"make acceptance SITE={shlex.quote(system)}{given}"


def step(remedy: Remedy, cases: Sequence[Case], nodes: Iterable[str] = ()) -> str:
    """What to do next, with commands that can be pasted, for these cases of a kind.

    :param nodes: those at fault; by default all that the cases ran on.
    """
    system = cases[0].system
    known = nodes or dict.fromkeys(node for case in cases for node in case.hosts)
    said = {
        "nodes": ",".join(filter(NAME.fullmatch, known)),
        "site": shlex.quote(system),
        "again": again(system, (case.test for case in cases)),
    }
    return re.sub(r"\{(\w+)\}", lambda found: said[found[1]], remedy.next).replace(" `,", "`,")


def lines(cases: Iterable[Case]) -> list[str]:
    """One line for each kind of message of the failed and undecided cases, in their order."""
    found = grouped((remedy_for(case.why), case) for case in cases if case.verdict in RED)
    return [
        f"next ({len(its)} {'case' if len(its) == 1 else 'cases'}): {kind.why} {step(kind, its)}"
        for kind, its in found.items()
        if kind
    ]
