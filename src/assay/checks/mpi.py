"""MPI programs: the world has the size that was asked for, and the bytes took the path under test.

Open MPI leaves UCX, and UCX leaves a transport, without a word and with exit code 0. Both can be
made to say what they chose; a test that derives from these classes asks them and believes nothing
else.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import ConfigError

from assay.catalogue import IN_IMAGE
from assay.checks import ucx
from assay.checks.site import site_directory
from assay.checks.strict import StrictCheck
from assay.checks.ucx import UcxMixin, text
from assay.evidence import links, node_state, transports
from assay.evidence.launch import SKIPPED_FILE
from assay.outputs import Parsed, openmpi
from assay.workloads.sizing import Layout, SizingError, spread

#: Processes of a test without MPI: a server and a client.
LOCAL_PAIR = 2

#: What programs call the number of their ranks (in ``Parsed.facts``).
RANK_FACTS = ("ranks", "processes", "CommWorldProcs")

#: An unprivileged container has a user namespace of its own, and the kernel lets no process read
#: the memory of one in another. Other transports then are not slower, but this is none.
CMA_IS_OFF = "CMA is off: the ranks are in different user namespaces"

_SKIP_WITHOUT_CMA = f"""\
rm -f {SKIPPED_FILE}
inside=$({IN_IMAGE} readlink /proc/self/ns/user) || exit 1
if [ "$inside" != "$(readlink /proc/self/ns/user)" ]; then
  echo {CMA_IS_OFF!r} >{SKIPPED_FILE}
  exit 1
fi""".splitlines()


class MpiCheck(StrictCheck):
    """A program of several ranks that must come up as one world, where they were to be.

    On a partition ``+intra-node`` all ranks share a node. On one ``+inter-node`` they are on
    several, and the counters of its ``network_device`` must show that the bytes crossed the link.
    """

    parallel = True

    #: Whether the test takes all nodes that a partition ``+inter-node`` has for it (``nodes``),
    #: with ``cores_per_node`` ranks on each; others take two nodes with one rank each.
    #:
    #: :type: :class:`bool`
    #: :default: ``False``
    over_all_nodes = variable(bool, value=False)

    #: How many nodes another test takes there.
    nodes_taken = 2

    #: Whether that test has ``cores_per_node`` ranks on each of them, too, and not one.
    fills_nodes = False

    def ranks_on(self, cores: int) -> int:
        """Number of ranks to start on `cores` cores, which may be those of several nodes.

        :raises assay.workloads.sizing.SizingError: the partition is too small for the test.
        """
        return 2

    def payload(self, parsed: Parsed) -> float:
        """What each node must at least have moved over the link, both directions together [B].

        Of every test that runs on partitions ``+inter-node``.
        """
        raise NotImplementedError

    @property
    def between_nodes(self) -> bool:
        """Whether the partition is a link between nodes."""
        return "inter-node" in self.current_partition.features

    @property
    def crosses_the_link(self) -> bool:
        """Whether the ranks are on several nodes of such a partition."""
        return self.between_nodes and self._layout.nodes > 1

    @run_after("setup")
    def _choose_ranks(self) -> None:
        partition = self.current_partition
        processor = partition.processor
        if not processor.num_cpus:
            raise self._misdescribed(
                "processor: num_cpus is missing; the number of ranks follows from it"
            )
        self._cores = cores = min(processor.num_cores or processor.num_cpus, processor.num_cpus)
        try:
            self._layout = self.layout(cores)
        except SizingError as error:
            self.skip(str(error))
        self.skip_if(
            self._layout.per_node > cores,
            f"{self._layout.per_node} ranks are needed; {partition.fullname} has cores for {cores}",
        )
        wanted = self._layout.nodes
        if wanted > 1 or self.between_nodes:
            there, out = node_state.in_service(partition.scheduler, self.job, wanted)
            if there < wanted:
                self._refuse([f"{there} of {wanted} nodes are in service", *out])
        self.num_tasks = self._layout.ranks
        self.num_tasks_per_node = self._layout.per_node

    def layout(self, cores: int) -> Layout:
        """Where the ranks are, on nodes with so many cores.

        :raises assay.workloads.sizing.SizingError: the partition is too small for the test.
        """
        return self._spread(cores) if self.between_nodes else Layout(1, self.ranks_on(cores))

    def _spread(self, cores: int) -> Layout:
        partition = self.current_partition
        if "intra-node" in partition.features:
            raise self._misdescribed(
                "features: intra-node and inter-node exclude each other; make it two partitions"
            )
        nodes = partition.extras.get("nodes", 2)
        if nodes < 2:
            raise self._misdescribed(f"extras: nodes is {nodes}; between nodes takes at least 2")
        wanted = nodes if self.over_all_nodes else self.nodes_taken
        if wanted > nodes:
            raise SizingError(f"{wanted} nodes are needed, {partition.fullname} has {nodes} for us")
        if self.over_all_nodes or self.fills_nodes:
            return spread(wanted, self.places(cores), self.ranks_on)
        return spread(wanted, 1, self.ranks_on)

    def places(self, cores: int) -> int:
        """How many ranks each of several nodes has room for, with so many cores."""
        return int(self.current_partition.extras.get("cores_per_node", cores))

    def _misdescribed(self, what: str) -> ConfigError:
        return ConfigError(
            f"{site_directory() / 'reframe.py'}: partition {self.current_partition.name!r}: {what}"
        )

    @run_before("run")
    def _ask_open_mpi(self) -> None:
        self.env_vars.update(transports.verbose_environment())

    @run_before("run", always_last=True)
    def _witness_the_link(self) -> None:
        if not self.crosses_the_link:
            return
        device = self.partition_extra("network_device")
        shutil.copy(links.WITNESS, self.stagedir)  # the stage is where every node can read
        self.job.launcher.options = [
            *self.job.launcher.options, f'"$assay_stage"/{links.WITNESS.name}', device
        ]  # fmt: skip
        # The ranks of a node are neighbours: half of all ranks, and so one of each pair, is
        # elsewhere. mpirun does so by itself.
        self.env_vars["SLURM_DISTRIBUTION"] = "block"
        self.keep_files.append(links.READINGS)

    def examine(self, parsed: Parsed | None) -> list[str]:
        """What Open MPI said of the world, what the program said of it, and what the link saw."""
        world = openmpi.parse(text(self.stderr))
        asked = self.num_tasks
        hosts = Counter(host for host, _ in world.selected)
        self._record["proof"] = {
            "pml": sorted(world.pml),
            "ranks": {"asked": asked, "seen": world.ranks_seen, "cores": self._cores},
            "hosts": dict(hosts),
        }
        if world.apart or self.current_environ.extras.get("user_namespaces"):
            self._record["proof"]["single_copy"] = CMA_IS_OFF
        problems = self.world_problems(world)
        for fact in RANK_FACTS:
            said = parsed.facts.get(fact, asked) if parsed else asked
            if said != asked:
                problems.append(f"{self._program()} says {said} ranks, {asked} were asked for")
        if self.crosses_the_link and parsed:
            problems += self._crossed(self.payload(parsed))
        return problems

    def world_problems(self, world: openmpi.OpenMpi) -> list[str]:
        """What is wrong with the world that a launch came up as, one line each."""
        asked, hosts = self.num_tasks, Counter(host for host, _ in world.selected)
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
        elif sorted(hosts.values()) != [self._layout.per_node] * self._layout.nodes:
            there = ", ".join(f"{number} on {host}" for host, number in sorted(hosts.items()))
            problems.append(
                f"the ranks are not where they were to be: {there}; {self._layout.per_node} on "
                f"each of {self._layout.nodes} nodes were asked for"
            )
        return problems + self._steered(world.settings)

    def _crossed(self, needed: float) -> list[str]:
        """What the counters of the link say against bytes having crossed it."""
        files = {path.name: text(path) for path in Path().glob(links.READINGS)}
        crossing = links.prove(files, self._layout, needed)
        device = self.partition_extra("network_device")
        self._record["proof"]["link"] = {
            "device": device, "needed": needed, "moved": crossing.moved
        }  # fmt: skip
        return list(crossing.problems)

    def _steered(self, settings: Mapping[str, str]) -> list[str]:
        """Settings of the environment that steer Open MPI, and that nobody here asked for."""
        partition, stack = self.current_partition.local_env, self.current_environ
        asked = {*self.env_vars, *stack.env_vars, *partition.env_vars}
        return [
            f"OMPI_MCA_{name}={value} was set behind the test's back: unset it, or put it into "
            "the stack's env_vars"
            for name, value in transports.unasked(settings, asked).items()
        ]


class TransportMixin(UcxMixin):
    """A program over UCX whose bytes must take one transport, and are shown to have taken it.

    It runs on every partition that says by a feature that it can open the transport; over a network
    transport between nodes too, if it is started by MPI. A mixin, to be named before
    :class:`assay.checks.strict.StrictCheck` or a class derived from it: ReFrame refuses to inherit
    its variables twice.
    """

    #: The data path under test.
    #:
    #: :type: :class:`str`
    #: :values: the names in :mod:`assay.evidence.transports`
    transport = parameter(transports.SWITCHED)

    @run_after("init")
    def _select(self) -> None:
        kinds = ["intra-node"]
        if self.parallel and transports.TRANSPORTS[self.transport].network:
            kinds.append("inter-node")
        self.valid_systems = [f"+{kind} +{self.transport}" for kind in kinds]

    @run_before("run")
    def _force_the_path(self) -> None:
        version = self.ucx_version()
        device = self.current_partition.extras.get("network_device")
        refused = transports.unusable(self.transport, version, device)
        self.skip_if(refused is not None, str(refused))
        self.steer_ucx(transports.environment(self.transport, version, device))
        stack = self.current_environ.extras
        together = self.parallel and stack.get("contained")
        if self.transport == "cma" and "image" in stack and not together:
            self.prerun_cmds += _SKIP_WITHOUT_CMA

    def sizes(self, parsed: Parsed) -> list[int]:
        """Message sizes [B] whose path must be proven: by default those of the curve.

        None for a collective: its messages have the sizes that Open MPI's algorithm chooses.
        """
        return [int(row["size"]) for row in parsed.rows if "size" in row]

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds what the logs of UCX prove, or fail to prove, about the path."""
        problems: list[str] = super().examine(parsed)
        farewells = openmpi.parse(text(self.stderr)).farewells if self.parallel else 0
        proof = self.proof(Path(), parsed, farewells, self.current_environ.extras["ucx_version"])
        said = self._record.setdefault("proof", {})
        said.update({k: v for k, v in asdict(proof).items() if k != "problems"})
        self._record["transport"] = self.transport
        return problems + list(proof.problems)

    def proof(
        self, folder: Path, parsed: Parsed | None, farewells: int, ucx_version: str
    ) -> transports.Proof:
        """What the logs of UCX that a launch left in a folder prove.

        :param farewells: see :func:`assay.evidence.transports.without_farewells`.
        """
        return transports.prove(
            self.transport,
            transports.without_farewells(self.transport, ucx.said(folder), farewells),
            self.sizes(parsed) if parsed else [],
            ucx_version=ucx_version,
            processes=self.num_tasks if self.parallel else LOCAL_PAIR,
        )


class MpiTransportCheck(TransportMixin, MpiCheck):
    """An MPI program over a chosen transport: pml ucx is forced, and shown to have been chosen."""

    @run_before("run")
    def _force_ucx(self) -> None:
        self.force_pml_ucx()

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds that no rank fell back to another pml."""
        return [*super().examine(parsed), *self.fallen_back()]
