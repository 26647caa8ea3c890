"""Nodes that are out of service, and the reason, as the scheduler reports it.

A job for nodes that are down waits for ever. A job whose node dies ends without a message of its
own. Slurm knows which node it was. Other schedulers are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError

from assay import slurm
from assay.accused import Against, How

#: Errors that a query raises if Slurm does not answer. In a dry run Slurm may not be installed.
SILENT = (JobSchedulerError, SpawnedProcessError, FileNotFoundError)


def in_service(scheduler: Any, job: Any, wanted: int) -> tuple[int, list[str]]:
    """How many of the wanted nodes a job can get, and the causes if not all, one line each.

    If the scheduler is not Slurm, the answer is all nodes. If Slurm does not answer, the answer is
    all nodes, with one line that says why their state is unknown.
    """
    if scheduler.registered_name not in slurm.SCHEDULERS:
        return wanted, []
    try:
        nodes = list(scheduler.filternodes(job, scheduler.allnodes()))
    except SILENT as error:
        return wanted, [_silence(error)]
    out = _out(nodes)
    there = len(nodes) - len(out)
    if there >= wanted:
        return wanted, []
    causes = [out[name] for name in sorted(out)]
    if len(nodes) < wanted:
        causes.append(f"Slurm has {len(nodes)} nodes for this job, {wanted} are asked for")
    return there, causes


def lost(scheduler: Any, names: Iterable[str]) -> list[str]:
    """The given nodes that are out of service now, one line each, or that Slurm is silent."""
    if scheduler.registered_name not in slurm.SCHEDULERS:
        return []
    try:
        out = _out(scheduler.allnodes())
    except SILENT as error:
        return [_silence(error)]
    return [out[name] for name in sorted(names) if name in out]


def _out(nodes: Iterable[Any]) -> dict[str, str]:
    """Name of each node that takes no job -> why, in one line."""
    said = [slurm.node(node.descr) for node in nodes]
    return {it.name: Against(f"{it.name} is {it.out}", [it.name], How.OUT) for it in said if it.out}


def _silence(error: Exception) -> str:
    """Why the state of the nodes is unknown, in one line."""
    # ReFrame wraps the original error of the command.
    cause = error.__cause__ or error
    said = str(getattr(cause, "stderr", "") or cause)
    return f"Slurm does not say how its nodes are: {' '.join(said.split())}"
