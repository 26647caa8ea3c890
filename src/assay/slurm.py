"""What Slurm says of a node: from a text of ``scontrol`` to a row."""

from __future__ import annotations

import re
from typing import NamedTuple

#: States of a node, alone or with others, in which it takes no job (``scontrol`` of Slurm 22.05,
#: ``NODE STATE CODES`` of sinfo(1)). A node that is asleep, or in maintenance, takes jobs.
OUT = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL"),
    *("NOT_RESPONDING", "NO_RESPOND", "UNKNOWN"),
}

#: ReFrame's names of schedulers that are Slurm.
SCHEDULERS = ("slurm", "squeue")


class Node(NamedTuple):
    """A node of Slurm, and why it takes no job; empty if it does."""

    name: str
    state: str
    out: str


def is_name(text: str) -> bool:
    """Whether a text can be the name of one node, and not a list of them, or ``ALL``."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text)) and text.upper() != "ALL"


def fields(line: str) -> dict[str, str]:
    """The words ``Key=value``, cut at a blank. Of equal keys the first counts: texts come last."""
    found: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", line):
        found.setdefault(key, "" if value == "(null)" else value)
    return found


def node(line: str) -> Node:
    """The node that a line of ``scontrol show node --oneliner`` describes.

    :raises ValueError: the line does not name a node.
    """
    if not line.startswith("NodeName="):
        raise ValueError(f"no node: {line[:60]!r}")
    said = fields(line)
    state = said.get("State") or "UNKNOWN"
    return Node(said["NodeName"], state, _out(state, line))


def _out(state: str, line: str) -> str:
    # Slurm appends characters: DOWN* does not respond, IDLE~ is asleep.
    if "*" not in state and not OUT & {word.rstrip("*~#!%$@^+-") for word in state.split("+")}:
        return ""
    # The author and the time are in brackets, at the end of the reason.
    reason = re.search(r" Reason=(.*?)(?: \[[^\]]*\]| \w+=|$)", line)
    return state + (f" ({reason[1]})" if reason else "")
