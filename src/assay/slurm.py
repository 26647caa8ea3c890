"""What Slurm says of a node, and of the end of a job: from a text to a row."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

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


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """How Slurm says that a job ended; without a state where it has forgotten the job.

    :ivar code: exit code and signal of the job script, ``0:15``.
    :ivar nodes: the nodes that it allocated, ``node[01-02]``.
    :ivar restarts: how often it put the job back into the queue.
    """

    id: str
    state: str = ""
    code: str = ""
    nodes: str = ""
    reason: str = ""
    restarts: int = 0

    def __str__(self) -> str:
        if not self.state:
            return "Slurm has forgotten it, and nobody knows how it ended"
        code = self.code and f" with exit code {self.code}"
        why = self.reason and f" ({self.reason})"
        again = f", started {1 + self.restarts} times," if self.restarts else ""
        return f"Slurm says {self.state}{code}{why}{again}" + (self.nodes and f" on {self.nodes}")

    def denies(self, rc: int) -> bool:
        """Whether it is not the end that a job says of itself, whose exit code was `rc`."""
        agrees = self.state in ("", "COMPLETED") or (self.state == "FAILED" and rc != 0)
        return bool(self.restarts) or not agrees


def ended(job: str, text: str) -> Ended:
    """The end of a job: ``scontrol show job -o``, or ``sacct -nPX -o state,exitcode,nodelist``."""
    line, keys = text.partition("\n")[0], ("JobState", "ExitCode", "NodeList", "Reason")
    said = fields(line) if line.startswith("JobId=") else dict(zip(keys, line.split("|")))
    # Of sacct: `CANCELLED by 1000`, and `None assigned`.
    words = [said.get(key, "").split(" ")[0].replace("None", "") for key in keys]
    state, code, nodes, reason = words
    return Ended(job, state, code, nodes, reason, int(said.get("Restarts") or 0))


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
