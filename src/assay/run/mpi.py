"""MPI programs: the world has the requested size, and the bytes took the path under test.

Open MPI can leave UCX, and UCX can leave a transport, silently and with exit code 0. Both can be
made to report what they chose. A test that derives from these classes asks for these reports. Under
another MPI, :mod:`assay.prove.mpi` says what takes their place.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before

from assay.node import IN_IMAGE
from assay.parse import Parsed, ParseError, openmpi, ucx_log
from assay.prove import launch, links, mpi, node_state, steering, transports
from assay.prove.launch import SKIPPED_FILE
from assay.run import ucx
from assay.run.site import misdescribed
from assay.run.strict import StrictCheck
from assay.run.ucx import UcxMixin, text
from assay.workloads.sizing import Layout, SizingError, spread

#: Two numbers of cores of a node. A test with equal ranks on both needs not know the number.
FEW, MANY = 16, 256

#: Files of the sweep before the one that is judged, by their ends.
FIRST = "first-sweep"

#: The share of a core that a rank has at least while it computes: half if two share one.
LEAST_OF_A_CORE = 0.75

#: An unprivileged container has its own user namespace. The kernel does not let a process read the
#: memory of a process in another user namespace. CMA is then off; the other transports are not
#: slower.
CMA_IS_OFF = "CMA is off: the ranks are in different user namespaces"

_SKIP_WITHOUT_CMA = f"""\
rm -f {SKIPPED_FILE}
inside=$({IN_IMAGE} readlink /proc/self/ns/user) || exit 1
if [ "$inside" != "$(readlink /proc/self/ns/user)" ]; then
  echo {CMA_IS_OFF!r} >{SKIPPED_FILE}
  exit 1
fi""".splitlines()


def ranks_said(parsed: Parsed) -> int | None:
    """How many ranks a program says that its world has; None if it does not say."""
    for fact in ("ranks", "processes", "CommWorldProcs"):  # by what each program calls it
        if fact in parsed.facts:
            return int(parsed.facts[fact] or 0)
    # HPL ends at once in a world that is smaller than its grid.
    grids = [int(row["p"]) * int(row["q"]) for row in parsed.rows if "p" in row and "q" in row]
    return max(grids, default=None)


class MpiCheck(StrictCheck):
    """A program of several ranks that must come up as one world, with its ranks where requested.

    On a partition ``+intra-node`` all ranks share a node. On a partition ``+inter-node`` they are
    on several nodes, and the counters of its ``network_device`` must show that the bytes crossed
    the link.
    """

    parallel = True

    #: Number of nodes of a partition ``+inter-node`` that the test takes; None takes all that the
    #: partition provides (``nodes``). Each has as many of the ranks as :meth:`ranks_on` says.
    nodes_taken: int | None = 2

    #: Whether each rank is started by a script that reads the rank and the link.
    witnessed = True

    #: Whether a job between nodes sweeps once before the sweep that is judged. On healthy clouds,
    #: the first collective of one job in four takes ten times as long at small sizes. That is gone
    #: from the next sweep on (aws/aws-parallelcluster, pull requests 7452 and 7565). OSU's messages
    #: before those that it counts (-x) are a part of each sweep, and did not help there.
    sweeps_twice = False

    #: What the link carried in the last launch; None if it did not cross the link, or is not known.
    _crossing: links.Crossing | None = None

    def ranks_on(self, cores: int) -> int:
        """Number of ranks to start on `cores` cores; the cores may belong to several nodes.

        :raises assay.workloads.sizing.SizingError: the partition is too small for the test.
        """
        return 2

    def payload(self, parsed: Parsed) -> float:
        """The minimum that each node must have moved over the link, both directions together [B].

        Every test that runs on partitions ``+inter-node`` implements it.
        """
        raise NotImplementedError

    #: The MPI that the last launch showed; None if it showed none, or before the launch.
    _mpi_seen: mpi.Mpi | None = None

    @property
    def mpi_library(self) -> mpi.Mpi:
        """The MPI that ran, or before the launch that of the stack."""
        return self._mpi_seen or mpi.of_stack(self.current_environ.extras)

    @property
    def between_nodes(self) -> bool:
        """Whether the partition is a link between nodes."""
        return "inter-node" in self.current_partition.features

    @property
    def _crosses_the_link(self) -> bool:
        """Whether the ranks are on several nodes of a partition ``+inter-node``."""
        return self.between_nodes and self._layout.nodes > 1

    def _no_path_without_reports(self) -> None:
        library = self.mpi_library
        # What nobody states may have changed since the site was accepted.
        unstated = self._mpi_seen or self._of_a_person
        kind = "incomplete" if unstated else "not-here"
        why = f"the MPI {library.word} reports no path that the suite can read; Open MPI does"
        self.leave_out(kind, isinstance(self, UcxMixin) and not library.reports, why)

    def place_ranks(self) -> None:
        self._no_path_without_reports()
        self.env_vars.update(self.mpi_library.report)
        partition = self.current_partition
        try:
            if partition.processor.num_cpus or self.layout(FEW) != self.layout(MANY):
                self._cores = self._cores_of_a_node()
                self._layout = self.layout(self._cores)
            else:  # the ranks do not follow from the cores: whether they had some, the job sees
                self._layout = self.layout(FEW)
                self._cores = self._layout.per_node
        except SizingError as error:
            self.leave_out(error.kind, True, str(error))
        cores, ranks = self._cores, self._layout.per_node
        why = f"{ranks} ranks are needed; {partition.fullname} has cores for {cores}"
        self.leave_out("incomplete" if cores == 1 else "too-small", ranks > cores, why)
        wanted = self._layout.nodes
        if wanted > 1 or self.between_nodes:
            there, out = node_state.in_service(partition.scheduler, self.job, wanted)
            if there < wanted:
                self._refuse([f"{there} of {wanted} nodes are in service", *out])
        try:
            self.job.options += self.between.halves(wanted) if self.between else []
        except ValueError as error:
            self.leave_out("too-small", True, str(error))
        self.num_tasks = self._layout.ranks
        self.num_tasks_per_node = self._layout.per_node

    def layout(self, cores: int) -> Layout:
        """The layout of the ranks on nodes with `cores` cores each; raises as :meth:`ranks_on`."""
        if not self.between_nodes:
            return Layout(1, self.ranks_on(cores))
        return self._spread(int(self.current_partition.extras.get("cores_per_node", cores)))

    def _spread(self, places: int) -> Layout:
        """The layout on several nodes, each with so many places for a rank."""
        partition = self.current_partition
        if "intra-node" in partition.features:
            why = "features: intra-node and inter-node exclude each other; make it two partitions"
            raise misdescribed(partition, why)
        nodes = partition.extras.get("nodes", 2)
        if nodes < 2:
            why = f"extras: nodes is {nodes}; between nodes takes at least 2"
            raise misdescribed(partition, why)
        wanted = self.nodes_taken or nodes
        if wanted > nodes:
            raise SizingError(f"{wanted} nodes are needed, {partition.fullname} offers {nodes}")
        return spread(wanted, places, self.ranks_on)

    def launch_prefix(self) -> list[str]:
        """The scripts that read the rank, and on several nodes the link, before it starts."""
        if not self.witnessed:
            return []
        words = []
        if self._crosses_the_link:
            device = self.partition_extra("network_device")
            words = [f'"$assay_stage"/{links.WITNESS.name}', device]
            shutil.copy(links.WITNESS, self.stagedir)  # every node can read the stage directory
            # Consecutive ranks share a node. Half of all ranks, and so one rank of each pair, is
            # then on another node. mpirun places the ranks this way by default.
            self.env_vars["SLURM_DISTRIBUTION"] = "block"
            self.keep_files.append(links.READINGS)
        how = "inside" if "image" in self.current_environ.extras else "rank"
        return [*words, f'"$assay_stage"/{steering.WITNESS.name}', how]

    def parse_sweep(self, text: str) -> Parsed:
        """The output of one sweep; a test that sweeps twice implements it."""
        raise NotImplementedError

    def before_the_run(self) -> list[str]:
        """The same command without witnesses: the proofs are of the sweep that is judged."""
        if not (self.sweeps_twice and self._crosses_the_link):
            return []
        self.keep_files += [f"{FIRST}.{end}" for end in ("out", "err", "rc")]
        words = [self.job.launcher.run_command(self.job), self.executable, *self.executable_opts]
        sweep = f"UCX_LOG_FILE={FIRST}.%h.%p.log {' '.join(map(str, words))}"
        return [f"{sweep} >{FIRST}.out 2>{FIRST}.err; echo $? >{FIRST}.rc"]

    def _first_sweep(self) -> list[str]:
        """Problems of the sweep before; its numbers are recorded, and not judged."""
        code, said = text(f"{FIRST}.rc").strip(), f"{FIRST}.out, before the sweep that is judged"
        if code != "0":
            return [f"{said}: exit code {code or 'unknown'}; {FIRST}.err has more"]
        try:
            parsed = self.parse_sweep(text(f"{FIRST}.out"))
        except ParseError as error:
            return [f"{said}: {error}"]
        self.record.more["first_sweep"] = list(parsed.rows)
        torn = [] if parsed.complete else ["the output is incomplete"]
        return [f"{said}: {problem}" for problem in (*torn, *parsed.problems)]

    def shares_a_core(self, parsed: Parsed) -> list[str]:
        """A fault if the ranks of a node had fewer cores than ranks while they computed.

        It needs a partition with the extra ``others``, which says whose time is whose.
        """
        ended = self._launched
        if ended is None or ended.others is None or self._crosses_the_link:
            return []
        claimed, worked = self.claimed(parsed), ended.others.ours * (ended.end - ended.begin)
        if worked >= LEAST_OF_A_CORE * claimed * self.num_tasks:
            return []
        return [
            f"{self.num_tasks} ranks had {worked:.1f} s of all cores in the {claimed:.1f} s that "
            f"{self._program()} says it computed: they share cores; look for a binding around it, "
            "or in it"
        ]

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Compares the reports of MPI, the program and the link with the requested run."""
        problems = self._other_mpi()
        library, asked = self.mpi_library, self.num_tasks
        world = openmpi.parse_openmpi(text(self.stderr))
        ranks = self._ranks_seen(problems)
        reported = [host for host, _ in world.selected]
        hosts = Counter(reported if library.reports else (rank.host for rank in ranks))
        seen = world.ranks_seen if library.reports else len(ranks)
        self.record.proof = {
            "mpi": library.word,
            "pml": sorted(world.pml),
            "ranks": {"asked": asked, "seen": seen, "cores": self._cores},
            "hosts": dict(hosts),
        }
        if world.apart or self.current_environ.extras.get("user_namespaces"):
            self.record.proof["single_copy"] = CMA_IS_OFF
        said = ranks_said(parsed) if parsed else None
        if library.reports:
            problems += self.world_problems(world)
        else:
            problems += [*world.aborts, *self._unreported(parsed, said, ranks)]
        if self.witnessed:
            if self._launched:
                problems += launch.elsewhere(hosts, self.job.nodelist, self._launched.host)
            # The local launcher takes no options, so it starts no witness.
            if not isinstance(self.job.launcher, getlauncher("local")):
                problems += self._witnessed(ranks, world)
        # A log of UCX is a file; what comes before it is opened is on standard error.
        early = ucx_log.parse_ucx_log(text(self.stderr))
        problems += ucx.errors(transports.without_farewells("tcp", early, world.farewells))
        if said not in (None, asked):
            problems.append(f"{self._program()} says {said} ranks, {asked} were asked for")
        if self._crosses_the_link and parsed:
            problems += self._crossed(self.payload(parsed))
            problems += self._first_sweep() if self.sweeps_twice else []
        if self.between and hosts:
            problems += self.between.astray(hosts)
        return problems

    def _other_mpi(self) -> list[str]:
        """A problem if the run shows another MPI than the stack states; skips a path without proof.

        A stack that states none has the MPI that the run shows.
        """
        node, extras = self._node_after, self.current_environ.extras
        self._mpi_seen = None
        if node is None or "image" in extras:
            return []
        by_mpirun = self._starter == "mpirun"
        seen = mpi.of_run(node.libraries, node.launcher if by_mpirun else "")
        stated = self.mpi_library
        if seen is None or seen.reports == stated.reports:
            return []
        if "mpi" in extras or "openmpi_version" in extras:
            said = f"the stack {self.current_environ.name} states {stated.word}"
            return [f"the MPI {seen.word} ran, {said}: is the module of another MPI loaded?"]
        self._mpi_seen = seen
        self._no_path_without_reports()
        return []

    def _ranks_seen(self, problems: list[str]) -> list[steering.Steering]:
        """The ranks as their witnesses saw them start; files that are torn are problems."""
        ranks = []
        for path in sorted(Path().glob(steering.RANKS)):
            try:
                ranks.append(steering.rank(text(path)))
            except ValueError as error:
                problems.append(f"{path.name}: {error}")
        files = (*Path().glob(steering.RANKS), *Path().glob(steering.LOADED))
        self._started = {
            (launch.short_name(host), pid)
            for host, pid in steering.processes(path.name for path in files)
        }
        return ranks

    def _unreported(
        self, parsed: Parsed | None, said: int | None, ranks: Sequence[steering.Steering]
    ) -> list[str]:
        """Problems of a world that its MPI does not report, but the program and the witnesses."""
        word = self.mpi_library.word
        if said == self.num_tasks:
            return self._on_wrong_hosts([rank.host for rank in ranks]) if ranks else []
        problems = steering.of_other_launcher(ranks, word)
        if parsed is not None and said is None:
            problems.append(
                f"nothing shows one world of {self.num_tasks} ranks: the suite reads no report of "
                f"{word}, and {self._program()} does not say its number of ranks"
            )
        return problems

    def _on_wrong_hosts(self, hosts: Sequence[str]) -> list[str]:
        """A problem if the ranks, by their hosts, are not spread as asked for."""
        there = Counter(hosts)
        if sorted(there.values()) == [self._layout.per_node] * self._layout.nodes:
            return []
        said = ", ".join(f"{number} on {host}" for host, number in sorted(there.items()))
        asked = f"{self._layout.per_node} on each of {self._layout.nodes} nodes were asked for"
        return [f"the ranks are on the wrong hosts: {said}; {asked}"]

    def world_problems(self, world: openmpi.OpenMpi) -> list[str]:
        """Problems of the world that a launch came up as, one line each."""
        asked = self.num_tasks
        problems = list(world.aborts)
        if world.worlds > 1:
            why = "is the launcher of another MPI, or was its environment lost?"
            problems.append(f"{world.worlds} worlds came up instead of one of {asked} ranks: {why}")
        elif world.ranks_seen != asked:
            few = f"the world has {world.ranks_seen} ranks, {asked} were asked for"
            problems.append(few if world.ranks_seen else mpi.OPEN_MPI.silence)
        else:
            problems += self._on_wrong_hosts([host for host, _ in world.selected])
        variables = self._requested_variables()
        problems += mpi.OPEN_MPI.unasked(world, variables, self._machine)
        pml = self.current_partition.extras.get("pml")
        return problems + mpi.OPEN_MPI.other_pml(world, variables, pml)

    def _witnessed(self, ranks: Sequence[steering.Steering], world: openmpi.OpenMpi) -> list[str]:
        """Problems of the ranks as :mod:`assay.prove.steering` saw them start."""
        problems, wanted = [], self.num_tasks
        extras, node = self.current_environ.extras, self._node_after
        proof = self.record.proof
        proof["binding"] = [
            {"host": rank.host, "cpus": sorted(rank.cpus), "memories": sorted(rank.memories)}
            for rank in ranks
        ]
        if any(rank.nonce != self._nonce for rank in ranks):
            problems.append("ranks of another launch left their files here")
        if len(ranks) != wanted:
            problems.append(f"this launch started {len(ranks)} ranks, {wanted} were asked for")
        said = {(launch.short_name(host), pid) for host, pid in world.selected}
        # A process in a container may have other numbers outside.
        if (strange := sorted(said - self._started)) and "image" not in extras:
            problems.append(
                f"Open MPI reports on {strange[0][0]}:{strange[0][1]}, which this launch did not "
                "start: is it the output of another launch?"
            )
        asked = self._requested_variables()
        for rank in ranks:
            steered = rank if self.kind == "compute" else steering.without_computing(rank)
            problems += steering.unasked(steered, asked, self._machine)
            # mpirun of Open MPI passes no OMP_* to other nodes; other launchers pass all.
            words = ("UCX_",) if self.mpi_library.reports else ("UCX_", *steering.COMPUTING)
            problems += steering.lost(rank, asked, words)
        problems += steering.partly(ranks, self._machine)
        values: dict[str, list[str]] = {}
        for name, value in (pair for rank in ranks for pair in rank.variables.items()):
            values.setdefault(name, []).append(value)
        self.record.settings.ranks = {
            name: " or ".join(dict.fromkeys(its)) for name, its in sorted(values.items())
        }
        if node is not None:
            proof["libraries"] = dict(node.libraries)
            if "image" not in extras:
                problems += self._foreign(node.libraries, node, ranks)
            problems += steering.far_memory(ranks, node.numa)
            if not mpi.OPEN_MPI.oversubscribed(asked):
                problems += steering.crowded(ranks, node.cores)
        return list(dict.fromkeys(problems))

    def _crossed(self, needed: float) -> list[str]:
        """Problems if the counters of the link do not show that the bytes crossed it."""
        files = {path.name: text(path) for path in Path().glob(links.READINGS)}
        crossing = links.prove_crossing(files, self._layout, needed)
        device = self.partition_extra("network_device")
        link = {"device": device, "needed": needed, "moved": crossing.moved}
        self.record.proof["link"] = link
        if crossing.unavailable:
            link["unavailable"] = list(crossing.unavailable)
        if "," in device:
            link["carried"] = crossing.carried
        self._crossing = crossing
        return list(crossing.problems)


class TransportMixin(UcxMixin):
    """A program over UCX whose bytes must take one transport, with proof that they took it.

    It runs on every partition whose features name the transport. Over a network transport it also
    runs between nodes, if MPI starts it. This is a mixin. Name it before
    :class:`assay.run.strict.StrictCheck` or a class derived from it: ReFrame refuses to inherit
    its variables twice.
    """

    #: The data path under test, one of those in :mod:`assay.prove.transports`.
    transport = parameter(transports.TESTED)

    #: Features of the partitions on which it runs, if they also name the transport.
    partitions: Sequence[str] = ("+intra-node", "+inter-node")

    @run_after("init")
    def _select(self) -> None:
        far = self.parallel and transports.TRANSPORTS[self.transport].network
        there = [its for its in self.partitions if far or "+inter-node" not in its]
        self.valid_systems = [f"{its} +{self.transport}" for its in there]

    @run_before("run")
    def _force_the_path(self) -> None:
        self._steer_ucx(self.path_variables())
        if self.transport == "cma" and "image" in self.current_environ.extras:
            self.prerun_cmds += _SKIP_WITHOUT_CMA

    def path_variables(self, device: str | None = None, stack: Any = None) -> dict[str, str]:
        """Variables of UCX that force the path under test; skips what this UCX cannot run.

        :param device: the network devices to use; by default those of the partition.
        :param stack: another environment than that of the case.
        """
        device = device or self.current_partition.extras.get("network_device")
        return self._variables_of(self.transport, device, stack)

    def sizes(self, parsed: Parsed) -> list[int]:
        """Message sizes [B] whose path must be proven: those of the curve, none of a collective."""
        collective = self.curve.startswith("collective")
        return [int(row["size"]) for row in parsed.rows if "size" in row and not collective]

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds what the logs of UCX prove, or fail to prove, about the path."""
        problems: list[str] = super().examine(parsed)
        log = ucx.said(Path())
        farewells = openmpi.parse_openmpi(text(self.stderr)).farewells if self.parallel else 0
        if not self.parallel and self._launched:  # both processes are on the node of the job script
            hosts = (host for host, _ in log.processes)
            problems += launch.elsewhere(hosts, self.job.nodelist, self._launched.host)
        sizes = self.sizes(parsed) if parsed else []
        proof = transports.prove_transport(
            self.transport,
            transports.without_farewells(self.transport, log, farewells),
            sizes,
            ucx_version=self._ucx_that_ran(log),
            processes=self.num_tasks if self.parallel else 2,  # a server and a client
        )
        said = self.record.proof
        said.update({k: v for k, v in asdict(proof).items() if k != "problems"}, sizes=sizes)
        self.record.transport = self.transport
        return problems + list(proof.problems)
