"""Nodes that are out of service, and why, as the scheduler says it.

A job for nodes that are down waits for ever, and one whose node dies ends without a word of its
own. Slurm knows which node it was; of other schedulers nothing is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError

#: States of a node, alone or with others, in which it takes no job (``scontrol`` of Slurm 22.05,
#: ``NODE STATE CODES`` of sinfo(1)).
OUT = frozenset(
    (
        *("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL"),
        *("NOT_RESPONDING", "NO_RESPOND", "UNKNOWN"),
    )
)

#: What Slurm puts behind a state: ``DOWN*`` does not respond, ``IDLE~`` is asleep.
FLAGS = "*~#!%$@^+-"

#: What asking Slurm raises where it does not answer. In a dry run it may not even be installed.
SILENT = (JobSchedulerError, SpawnedProcessError, FileNotFoundError)


def describe(description: str) -> tuple[str, str]:
    """A node and why it takes no job (empty: it does), from one line of ``scontrol -o show node``.

    :raises ValueError: the line has no node.
    """
    name = re.match(r"NodeName=(\S+)", description)
    if name is None:
        raise ValueError(f"no node: {description[:60]!r}")
    state = re.search(r" State=(\S+)", description)
    said = state[1] if state else "UNKNOWN"
    silent = "*" in said
    states = {word.rstrip(FLAGS) for word in said.split("+")}
    if not states & OUT and not silent:
        return name[1], ""
    # Who said it and when comes in brackets, and is the last that a line has of it.
    reason = re.search(r" Reason=(.*?)(?: \[[^\]]*\]| \w+=|$)", description)
    return name[1], said + (f" ({reason[1]})" if reason else "")


def in_service(scheduler: Any, job: Any, wanted: int) -> tuple[int, list[str]]:
    """How many of the nodes that a job wants it can get, and why not all, one line for each cause.

    All of them where the scheduler is not Slurm. All of them, and why nobody knows better, where
    Slurm does not answer.
    """
    try:
        nodes = _nodes(scheduler)
        if nodes is None:
            return wanted, []
        said = dict(describe(node.descr) for node in scheduler.filternodes(job, nodes))
    except SILENT as error:
        return wanted, [_silence(error)]
    there = sum(not why for why in said.values())
    if there >= wanted:
        return wanted, []
    out = [f"{name} is {why}" for name, why in sorted(said.items()) if why]
    if len(said) < wanted:
        out.append(f"Slurm has {len(said)} nodes for this job, {wanted} are asked for")
    return there, out


def lost(scheduler: Any, names: Iterable[str]) -> list[str]:
    """Of these nodes the ones that are out of service now, one line each.

    One line that says so where Slurm does not answer.
    """
    try:
        nodes = _nodes(scheduler) or ()
    except SILENT as error:
        return [_silence(error)]
    said = dict(describe(node.descr) for node in nodes)
    return [f"{name} is {said[name]}" for name in sorted(names) if said.get(name)]


def _nodes(scheduler: Any) -> Any:
    if scheduler.registered_name not in ("slurm", "squeue"):
        return None
    return scheduler.allnodes()


def _silence(error: Exception) -> str:
    """Why the nodes are not known, in one line."""
    # ReFrame wraps what happened to the command.
    cause = error.__cause__ or error
    said = str(getattr(cause, "stderr", "") or cause)
    return f"Slurm does not say how its nodes are: {' '.join(said.split())}"
