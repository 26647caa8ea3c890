"""What a job asks its scheduler and its launcher for, without which it starts and cannot work.

A site that has ReFrame leaves much of this to its own tests, in its own words. What the words say
is filled in. What they leave open skips the case, and the reason names the key. The functions here
read words; :class:`assay.run.strict.StrictCheck` acts on what they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.logging import getlogger
from reframe.utility.typecheck import Duration

from assay import files, slurm

#: How long a job may wait in the queue if the site sets no limit.
MAX_PENDING = "1d"

_WORDS = files.own(__file__, dict[str, Any], "jobs.yaml")
HANDING_ON = (*_WORDS["starters"], "local", "mpirun")
NUMBERED = re.compile(_WORDS["numbered"])
_GPUS = re.compile(_WORDS["gpus"])

#: Scheduler -> a limit of time in its options; of those that are not here ``time``.
_TIMES = {**dict.fromkeys(slurm.SCHEDULERS, _WORDS["time_of_slurm"]), "lsf": _WORDS["time_of_lsf"]}

#: Of a resource that nobody fills: its name, and the extras that would fill it.
EMPTY = "resources: {} stays empty: if the site asks for it, state {} as an extra"

#: Lines that were said in this process.
_said: set[str] = set()


def seconds(scheduler: str, option: str) -> float | None:
    """The limit of time in an option of a scheduler [s]; None if it has none."""
    match = re.search(_TIMES.get(scheduler, _WORDS["time"]), option)
    if match is None:
        return None
    days, _, clock = match[1].rpartition("-")
    parts = [int(part or 0) for part in clock.split(":")]
    if days or (scheduler == "lsf" and len(parts) == 2):
        parts = [*parts, 0, 0][:3]
    elif scheduler in _TIMES and len(parts) == 1:
        parts = [0, *parts, 0]
    hours, minutes, rest = [0, 0, *parts][-3:]
    return float(86400 * int(days or 0) + 3600 * hours + 60 * minutes + rest)


def shortest_limit(scheduler: str, access: Iterable[str], time_limit: Any) -> tuple[float, str]:
    """The shortest limit of time of a partition [s], and what states it; 0 if nothing does."""
    limits = {f"access: {option}": seconds(scheduler, option) or 0.0 for option in access}
    limits["time_limit"] = float(Duration(time_limit)) if time_limit else 0.0
    return min(((limit, where) for where, limit in limits.items() if limit), default=(0.0, ""))


def unable(launcher: type[Any], parallel: bool, local: bool) -> str:
    """Why a launcher of a partition can start no ranks of a job there; empty if it can.

    :param local: the scheduler starts jobs where ReFrame runs.
    """
    if parallel and issubclass(launcher, tuple(map(getlauncher, _WORDS["shells"]))):
        return "starts a shell, and no ranks"
    if local and issubclass(launcher, getlauncher("srunalloc")):
        return "leaves the job script where ReFrame runs: take slurm with srun"
    return ""


def starter(launcher: Any, words: str) -> str:
    """The program by which a launcher starts ranks; ``mpirun`` for all that take its options.

    A launcher of a site may have any name and any class: then the words of its command tell.
    """
    if isinstance(launcher, getlauncher("local")):
        return "local"
    if isinstance(launcher, tuple(map(getlauncher, _WORDS["mpirun"]))):
        return "mpirun"
    names = [Path(word).name for word in words.split()]
    if {*names} & {"mpirun", "mpiexec", "orterun", "prterun"}:
        return "mpirun"
    known = (name for name in names if name in _WORDS["starters"])
    return next(known, str(launcher.registered_name))


def _placeholders(options: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each placeholder of the options, with its option and the text before it."""
    for option in options:
        for before, name, *_ in Formatter().parse(option):
            if name is not None:
                yield option, before, name


def say_once(partition: str, what: str) -> None:
    """One line, for the first of the partitions of which it is true."""
    if what not in _said:
        _said.add(what)
        getlogger().warning(f"{partition}: {what}")


@dataclass(frozen=True)
class Request:
    """What a job asks for before its resources are filled in.

    :ivar own: options of the case, and of the command line.
    :ivar resources: resource of the partition -> its options.
    :ivar extras: extras of the partition, which may fill a placeholder.
    """

    scheduler: str
    access: Sequence[str]
    own: Sequence[str]
    resources: Mapping[str, Sequence[str]]
    extras: Mapping[str, Any]
    processes: int
    nodes: int

    @property
    def options(self) -> list[str]:
        """The options that do not come from resources."""
        return [*self.access, *self.own]

    def unstartable(self, by_local: bool) -> str:
        """Why the scheduler cannot start all processes; empty if it can.

        :param by_local: the launcher is ReFrame's ``local``.
        """
        if self.processes == 1:
            return ""
        if by_local:
            return "the launcher local starts one process"
        slots = self.scheduler == "sge" and "-pe " not in " ".join(self.options)
        if self.scheduler == "flux" or slots:
            return f"ReFrame asks {self.scheduler} for one slot"
        alone = self.scheduler == "ssh" and self.nodes > 1
        return "a job by ssh has one node" if alone else ""

    def gpus(self, wanted: int) -> tuple[dict[str, dict[str, Any]], str]:
        """The resource that asks for GPUs, with its values; or why nothing can ask for them.

        Both are empty if the options ask for them already, or nothing has to.

        :param wanted: number of GPUs of a node.
        """
        if not wanted or any(map(_GPUS.search, self.options)):
            return {}, ""
        why = ""
        # That of ReFrame itself first.
        for resource, options in sorted(self.resources.items(), key=lambda r: r[0] != "_rfm_gpu"):
            if not options and re.search("gpu|gres", resource):
                return {}, ""  # the site says that there is nothing to ask for
            if not any(map(_GPUS.search, options)):
                continue
            values = self._gpus_for(options, wanted)
            empty = [name for _, _, name in _placeholders(options) if name not in values]
            if not empty:
                return {resource: values}, ""
            why = why or f"resources: {resource}: {{{empty[0]}}} is not known; state it as an extra"
        nothing = f"resources: _rfm_gpu is missing: nothing asks {self.scheduler} for GPUs; its "
        return {}, why or f"{nothing}options do ([] if nothing has to)"

    def _gpus_for(self, options: Iterable[str], wanted: int) -> dict[str, Any]:
        """Values for the placeholders of a resource for GPUs, as far as they are known."""
        values: dict[str, Any] = {}
        for option, before, name in _placeholders(options):
            number = wanted * self.nodes if re.match(_WORDS["in_all"], option) else wanted
            if "per-task" in option:
                number = max(1, wanted * self.nodes // self.processes)
            if name in self.extras:
                values[name] = self.extras[name]
            elif before.endswith("gres="):
                values[name] = f"gpu:{number}"
            elif re.fullmatch(_WORDS["number"], name):
                values[name] = number
        return values

    def accounts(
        self, *given: Mapping[str, Mapping[str, Any]]
    ) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]]]:
        """Resources of accounts with their values, and those that stay empty, for :data:`EMPTY`.

        :param given: resource -> values by stack, then by test.
        """
        filled: dict[str, dict[str, Any]] = {}
        empty = []
        for resource, options in self.resources.items():
            names = [name for _, _, name in _placeholders(options)]
            if not names or not re.search(_WORDS["account"], resource):
                continue
            layers = self.extras, *(values.get(resource, {}) for values in given)
            known = {name: value for layer in layers for name, value in layer.items()}
            flags = tuple(re.split("[ =]", option)[0] for option in options)
            missing = [name for name in dict.fromkeys(names) if known.get(name) in (None, "")]
            if not missing:
                filled[resource] = {name: known[name] for name in names}
            elif not any(option.startswith(flags) for option in self.access):
                empty.append((resource, ", ".join(missing)))
        return filled, empty

    def whole_nodes(self) -> tuple[list[str], str]:
        """Options that ask for whole nodes and their memory, and a hint if none are known.

        :raises ValueError: the nodes of the job may be one.
        """
        asked, scheduler = " ".join(self.options), self.scheduler
        if scheduler in slurm.SCHEDULERS:
            # A node that is ours alone gives only the memory that the job asks for (sbatch(1)).
            whole = {"--exclusive": _WORDS["sharing"], "--mem=0": "--mem"}
            return [word for word, by in whole.items() if not re.search(by, asked)], ""
        if scheduler in ("pbs", "pbspro"):
            # Otherwise both ranks of a pair may be on one node.
            place = re.search(r"place=(\S+)", asked)
            if place and self.nodes > 1 and "scatter" not in place[1]:
                why = f"access: {place[0]} lets {self.nodes} nodes of a job be one"
                raise ValueError(f"{why}; write place=scatter")
            return [] if place else ["-l place=scatter:excl"], ""
        if scheduler == "torque":
            stated = "naccesspolicy" in asked.lower()
            return [] if stated else ["-W x=NACCESSPOLICY:SINGLEJOB"], ""
        if scheduler == "lsf" and "-x" in asked.split():
            return [], ""
        return [], f"nothing asks {scheduler} for whole nodes: write it into access, if it can"
