"""MPI programs: the world has the size that was asked for, and the bytes took the path under test.

Open MPI leaves UCX, and UCX leaves a transport, without a word and with exit code 0. Both can be
made to say what they chose; a test that derives from these classes asks them and believes nothing
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import ConfigError

from assay.checks import transports
from assay.checks.sizing import SizingError
from assay.checks.strict import StrictCheck, site_directory
from assay.outputs import Parsed, openmpi, ucx_log

#: Processes of a test without MPI: a server and a client.
LOCAL_PAIR = 2

#: What programs call the number of their ranks (in ``Parsed.facts``).
RANK_FACTS = ("ranks", "processes", "CommWorldProcs")

#: One log for each process, so that UCX never writes into the benchmark's own output.
UCX_LOGS = "ucx.%h.%p.log"


class MpiCheck(StrictCheck):
    """A program of several ranks that must come up as one world."""

    parallel = True

    def ranks(self, cores: int) -> int:
        """Number of ranks to start where each node has `cores` cores for us.

        :raises assay.checks.sizing.SizingError: the partition is too small for the test.
        """
        return 2

    @run_after("setup")
    def _choose_ranks(self) -> None:
        processor = self.current_partition.processor
        if not processor.num_cpus:
            raise ConfigError(
                f"{site_directory() / 'reframe.py'}: partition {self.current_partition.name!r}: "
                "processor: num_cpus is missing; the number of ranks follows from it"
            )
        self._cores = cores = min(processor.num_cores or processor.num_cpus, processor.num_cpus)
        try:
            self.num_tasks = self.ranks(cores)
        except SizingError as error:
            self.skip(str(error))
        self.skip_if(
            self.num_tasks > cores,
            f"{self.num_tasks} ranks are needed; {self.current_partition.fullname} has cores for "
            f"{cores}",
        )
        self.num_tasks_per_node = self.num_tasks

    @run_before("run")
    def _ask_open_mpi(self) -> None:
        self.env_vars.update(transports.verbose_environment())

    def examine(self, parsed: Parsed | None) -> list[str]:
        """What Open MPI said of the world, and what the program said of it."""
        world = openmpi.parse(_text(self.stderr))
        asked = self.num_tasks
        self._record["proof"] = {
            "pml": sorted(world.pml),
            "ranks": {"asked": asked, "seen": world.ranks_seen, "cores": self._cores},
        }
        problems = list(world.aborts)
        if world.worlds > 1:
            problems.append(
                f"{world.worlds} worlds came up instead of one of {asked} ranks: "
                "is the launcher of another MPI, or was its environment lost?"
            )
        elif world.ranks_seen != asked:
            problems.append(
                f"the world has {world.ranks_seen} ranks, {asked} were asked for"
                if world.ranks_seen
                else "Open MPI said nothing of its world: is the program linked to another MPI?"
            )
        problems += self._steered(world.settings)
        for fact in RANK_FACTS:
            said = parsed.facts.get(fact, asked) if parsed else asked
            if said != asked:
                problems.append(f"{self._program()} says {said} ranks, {asked} were asked for")
        return problems

    def _steered(self, settings: Mapping[str, str]) -> list[str]:
        """Settings of the environment that steer Open MPI, and that nobody here asked for."""
        partition, stack = self.current_partition.local_env, self.current_environ
        asked = {*self.env_vars, *stack.env_vars, *partition.env_vars}
        return [
            f"OMPI_MCA_{name}={value} was set behind the test's back: unset it, or put it into "
            "the stack's env_vars"
            for name, value in transports.unasked(settings, asked).items()
        ]


class TransportMixin(rfm.RegressionTestPlugin):
    """A program over UCX whose bytes must take one transport, and are shown to have taken it.

    It runs on every partition that says by a feature that it can open the transport. A mixin, to be
    named before :class:`assay.checks.strict.StrictCheck` or a class derived from it: ReFrame
    refuses to inherit its variables twice.
    """

    #: The data path under test.
    #:
    #: :type: :class:`str`
    #: :values: the names in :mod:`assay.checks.transports`
    transport = parameter(transports.SWITCHED)

    #: Link class: a feature of the partition.
    #:
    #: :type: :class:`str`
    #: :default: ``'intra-node'``
    link = variable(str, value="intra-node")

    @run_after("init")
    def _select(self) -> None:
        self.valid_systems = [f"+{self.link} +{self.transport}"]

    @run_before("run")
    def _force_the_path(self) -> None:
        version = self.current_environ.extras.get("ucx_version")
        self.skip_if(version is None, "this stack does not say which UCX it has (ucx_version)")
        device = self.current_partition.extras.get("network_device")
        refused = transports.unusable(self.transport, version, device)
        self.skip_if(refused is not None, str(refused))
        self.env_vars.update(transports.environment(self.transport, version, device))
        self.env_vars["UCX_LOG_FILE"] = UCX_LOGS
        self.keep_files.append("ucx.*.log")

    def sizes(self, parsed: Parsed) -> list[int]:
        """Message sizes [B] whose path must be proven: by default those of the curve.

        None for a collective: its messages have the sizes that Open MPI's algorithm chooses.
        """
        return [int(row["size"]) for row in parsed.rows if "size" in row]

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds what the logs of UCX prove, or fail to prove, about the path."""
        problems: list[str] = super().examine(parsed)
        log = ucx_log.parse("".join(_text(path) for path in sorted(Path().glob("ucx.*.log"))))
        proof = transports.prove(
            self.transport,
            log,
            self.sizes(parsed) if parsed else [],
            ucx_version=self.current_environ.extras["ucx_version"],
            processes=self.num_tasks if self.parallel else LOCAL_PAIR,
        )
        said = self._record.setdefault("proof", {})
        said.update({k: v for k, v in asdict(proof).items() if k != "problems"})
        self._record["transport"] = self.transport
        return problems + list(proof.problems)


class MpiTransportCheck(TransportMixin, MpiCheck):
    """An MPI program over a chosen transport: pml ucx is forced, and shown to have been chosen."""

    @run_before("run")
    def _force_ucx(self) -> None:
        self.env_vars.update(transports.pml_environment())
        # Collectives of these components move bytes around the pml, where no log shows them.
        self.env_vars["OMPI_MCA_coll"] = "^sm,xhc,hcoll,ucc"
        if self.current_partition.launcher_type.registered_name == "mpirun":
            # Across nodes mpirun passes on OMPI_* by itself, but not UCX_*.
            names = [name for name in self.env_vars if name.startswith("UCX_")]
            self.job.launcher.options = [
                *self.job.launcher.options,
                *(option for name in names for option in ("-x", name)),
            ]

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds that no rank fell back to another pml."""
        problems = super().examine(parsed)
        pml: list[Any] = self._record["proof"]["pml"]
        if pml and pml != ["ucx"]:
            problems.append(f"Open MPI chose the pml {', '.join(pml)}; ucx was asked for")
        return problems


def _text(path: Any) -> str:
    """A log, whatever bytes are in it; empty where there is none."""
    try:
        return Path(str(path)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
