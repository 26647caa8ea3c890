"""What a job asks its scheduler and its launcher for, without which it starts and cannot work.

A site that has ReFrame leaves much of this to its own tests, in its own words. What the words say
is filled in. What they leave open skips the case, and the reason names the key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from string import Formatter
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before
from reframe.core.logging import getlogger
from reframe.utility.typecheck import Duration

from assay import slurm
from assay.run.case import CaseBase

#: Launchers of ReFrame for mpirun, and those that start a remote shell.
_MPIRUN = ("mpirun", "mpirun-openmpi", "mpirun-intelmpi", "mpiexec")
_SHELLS = ("clush", "pdsh", "ssh")

#: Programs that start ranks, and those known to hand them the variables of the job on all nodes.
_STARTERS = ("aprun", "flux", "ibrun", "jsrun", "lrun", "srun")
HANDING_ON = (*_STARTERS, "local", "mpirun")

#: An option that asks for GPUs, and one that states their number for the whole job.
_GPUS = re.compile(r"gres={|(gres|tres)\S*[=: ]\S*gpu|--gpus|(^| )-G *[\w{]|gpus?=|(^| )-gpu ")
_IN_ALL = re.compile(r"--gpus[= ]|-G")

#: Names of placeholders that stand for a number of GPUs.
_NUMBER = re.compile(
    r"n|num|number|count|((n|num|number_of)_?)?(gpu|device|accelerator)s?(_(per_\w+|count|num))?"
)

#: Names of resources without which a site may refuse a job, or charge somebody else.
_ACCOUNT = re.compile(r"account|project|qos|queue|allocation|file_?system")

#: Options of Slurm by which a site says how nodes are shared.
_SHARING = re.compile(r"--exclusive|--oversubscribe|--share|(^| )-s( |$)")

#: Scheduler -> a limit of time in its options; that of all others.
_TIMES = {
    **dict.fromkeys(slurm.SCHEDULERS, re.compile(r"(?:--time[= ]|(?:^| )-t ?)([\d:-]+)")),
    "lsf": re.compile(r"(?:^| )-W ([\d:]+)"),
}
_TIME = re.compile(r"(?:walltime|h_rt)=([\d:]+)")

#: Options of mpirun that say how many ranks there are.
_NUMBERED = re.compile(r" -{1,2}(n|np|c|N|ppn|perhost|npernode|nperhost|map-by)[ =]?\S*\d")

#: Lines that were said in this process.
_said: set[str] = set()


def seconds(scheduler: str, option: str) -> float | None:
    """The limit of time in an option of a scheduler [s]; None if it has none."""
    match = _TIMES.get(scheduler, _TIME).search(option)
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


def _placeholders(options: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each placeholder of the options, with its option and the text before it."""
    for option in options:
        for before, name, *_ in Formatter().parse(option):
            if name is not None:
                yield option, before, name


class JobRequest(CaseBase):
    """The part of :class:`assay.run.strict.StrictCheck` that asks for what the job needs."""

    #: Whether the problem is sized by the memory of the node, all of which the job then needs.
    _whole_memory = False

    #: Profiles in which the time limit only ends what hangs, so that it may be shorter.
    _hurries: Collection[str] = ("smoke",)

    def _launch_words(self) -> str:
        """The command by which the launcher starts the ranks."""
        job = self.job
        job.num_tasks, job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        job.num_cpus_per_task = self.num_cpus_per_task
        return " ".join(map(str, job.launcher.command(job)))

    @property
    def _starter(self) -> str:
        """The program by which a launcher starts ranks; ``mpirun`` for all that take its options.

        A launcher of a site may have any name and any class: then the words of its command tell.
        """
        launcher = self.job.launcher
        if isinstance(launcher, getlauncher("local")):
            return "local"
        if isinstance(launcher, tuple(map(getlauncher, _MPIRUN))):
            return "mpirun"
        names = [Path(word).name for word in self._launch_words().split()]
        if {*names} & {"mpirun", "mpiexec", "orterun", "prterun"}:
            return "mpirun"
        return next((name for name in names if name in _STARTERS), str(launcher.registered_name))

    @run_after("setup")
    def _only_where_ranks_can_be(self) -> None:
        launcher = self.current_partition.launcher_type
        name = f"{self.current_partition.fullname}: the launcher {launcher.registered_name}"
        shell = issubclass(launcher, tuple(map(getlauncher, _SHELLS)))
        self.leave_out("not-here", self.parallel and shell, f"{name} starts a shell, and no ranks")
        here = self.current_partition.scheduler.is_local
        why = f"{name} leaves the job script where ReFrame runs: take slurm with srun"
        self.leave_out("not-here", here and issubclass(launcher, getlauncher("srunalloc")), why)

    @run_before("run")
    def _say_how_many_ranks(self) -> None:
        if not self.parallel:
            return
        launcher, words = self.job.launcher, self._launch_words()
        if "None" in words:  # of a site whose tests all state the cores of a rank
            self.num_cpus_per_task: Any = self.num_cpus_per_task or 1
        # Without a number, mpiexec may start one rank.
        if self._starter == "mpirun" and not _NUMBERED.search(words):
            launcher.options = ["-n", str(self.num_tasks), *launcher.options]

    def _ask(self) -> None:
        """Completes the request, or skips the case. Runs when everything else is known."""
        self._scheduler = str(self.job.scheduler.registered_name)
        self._processes = self.num_tasks or 1
        self._nodes = -(-self._processes // (self.num_tasks_per_node or self._processes))
        self._only_what_can_be_started()
        self._fit_the_time()
        if self._scheduler not in ("local", "ssh"):  # these allocate nothing
            self._ask_for_gpus()
            self._ask_for_accounts()
            if self.declares or self.parallel:  # others only look whether something is there
                self._ask_for_whole_nodes()

    def _options(self) -> list[str]:
        """The options of the job that do not come from resources."""
        return [*self.current_partition.access, *self.job.options, *self.job.cli_options]

    def _resources(self) -> dict[str, list[str]]:
        """The resources of the partition, with their options; that of ReFrame itself first."""
        found = self.current_partition.resources.items()
        return dict(sorted(found, key=lambda resource: resource[0] != "_rfm_gpu"))

    def _only_what_can_be_started(self) -> None:
        if self._processes == 1:
            return
        partition, scheduler = self.current_partition, self._scheduler
        why, said = "", " ".join(self._options())
        if self.parallel and partition.launcher_type.registered_name == "local":
            why = "the launcher local starts one process"
        elif scheduler == "flux" or (scheduler == "sge" and "-pe " not in said):
            why = f"ReFrame asks {scheduler} for one slot"
        elif scheduler == "ssh" and self._nodes > 1:
            why = "a job by ssh has one node"
        needed = f"{self._processes} ranks on {self._nodes} nodes are needed"
        self.leave_out("not-here", why, f"{partition.fullname}: {why}, {needed}")

    def _fit_the_time(self) -> None:
        partition = self.current_partition
        limits = {
            f"access: {option}": limit
            for option in partition.access
            if (limit := seconds(self._scheduler, option))
        }
        if partition.time_limit:
            limits["time_limit"] = Duration(partition.time_limit)
        where = min(limits, key=limits.__getitem__, default="")
        if not where or not self.time_limit or self.time_limit <= limits[where]:
            return
        why = f"{partition.fullname} ends a job after {limits[where] / 60:g} min ({where})"
        why += f"; the case may take {self.time_limit / 60:g} min"
        self.leave_out("too-small", self.profile not in self._hurries, why)
        self.time_limit: Any = limits[where]

    def _ask_for_gpus(self) -> None:
        if not self.num_gpus_per_node or any(map(_GPUS.search, self._options())):
            return
        why = ""
        for resource, options in self._resources().items():
            if not options and re.search("gpu|gres", resource):
                return  # the site says that there is nothing to ask for
            if not any(map(_GPUS.search, options)):
                continue
            values = self._gpus_for(options)
            empty = [name for _, _, name in _placeholders(options) if name not in values]
            if not empty:
                self.extra_resources[resource] = values
                return
            why = why or f"resources: {resource}: {{{empty[0]}}} is not known; state it as an extra"
        nothing = f"resources: _rfm_gpu is missing: nothing asks {self._scheduler} for GPUs; its "
        self._undescribed(True, why or f"{nothing}options do ([] if nothing has to)")

    def _gpus_for(self, options: Iterable[str]) -> dict[str, Any]:
        """Values for the placeholders of a resource for GPUs, as far as they are known."""
        extras, wanted = self.current_partition.extras, self.num_gpus_per_node
        values: dict[str, Any] = {}
        for option, before, name in _placeholders(options):
            number = wanted * self._nodes if _IN_ALL.match(option) else wanted
            if "per-task" in option:
                number = max(1, wanted * self._nodes // self._processes)
            if name in extras:
                values[name] = extras[name]
            elif before.endswith("gres="):
                values[name] = f"gpu:{number}"
            elif _NUMBER.fullmatch(name):
                values[name] = number
        return values

    def _ask_for_accounts(self) -> None:
        extras, access = self.current_partition.extras, self.current_partition.access
        of_stack = self.current_environ.resources
        for resource, options in self._resources().items():
            names = [name for _, _, name in _placeholders(options)]
            if not names or not _ACCOUNT.search(resource):
                continue
            said = self.extra_resources.get(resource, {})
            known = {**extras, **of_stack.get(resource, {}), **said}
            flags = tuple(re.split("[ =]", option)[0] for option in options)
            if {*names} <= {*known}:
                self.extra_resources[resource] = {name: known[name] for name in names}
            elif not any(option.startswith(flags) for option in access):
                self._say(
                    f"resources: {resource} stays empty: if the site asks for it, state "
                    f"{', '.join(name for name in names if name not in known)} as an extra"
                )

    def _ask_for_whole_nodes(self) -> None:
        asked, job, scheduler = " ".join(self._options()), self.job, self._scheduler
        place = re.search(r"place=(\S+)", asked)
        if scheduler in slurm.SCHEDULERS:
            self.exclusive_access: bool = self.exclusive_access or not _SHARING.search(asked)
            if self._whole_memory and "--mem" not in asked:
                job.options.append("--mem=0")
        elif scheduler in ("pbs", "pbspro"):
            # Otherwise both ranks of a pair may be on one node.
            why = f"access: {place and place[0]} lets {self._nodes} nodes of a job be one; write "
            together = place and self._nodes > 1 and "scatter" not in place[1]
            self._undescribed(together, f"{why}place=scatter")
            job.options += [] if place else ["-l place=scatter:excl"]
        elif scheduler == "torque" and "naccesspolicy" not in asked.lower():
            job.options.append("-W x=NACCESSPOLICY:SINGLEJOB")
        elif scheduler != "torque" and not (scheduler == "lsf" and "-x" in asked.split()):
            self._say(f"nothing asks {scheduler} for whole nodes: write it into access, if it can")

    def _say(self, what: str) -> None:
        """One line, for the first of the partitions of which it is true."""
        if what not in _said:
            _said.add(what)
            getlogger().warning(f"{self.current_partition.fullname}: {what}")
