"""Native against container: the same program from two stacks in turn, over the same transport.

The test decides equivalence by statistics (`equivalence.py`) and does not assume it.
Both stacks must be on the partition. The native stack is the first one that is not a container and
has the program.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import reframe as rfm
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import PerformanceError
from reframe.core.runtime import emit_loadenv_commands

from assay.judge import Verdict
from assay.parse import Parsed, ParseError, netpipe, osu
from assay.prove import transports
from assay.prove.plan import within
from assay.run.mpi import MpiTransportCheck
from assay.run.ucx import said, text

from . import paired
from .equivalence import Equivalence, decide

MIB = 1 << 20

#: Pairs of launches, by profile. Each launch takes a second or two.
ROUNDS = {"smoke": 8, "full": 20}


@dataclass(frozen=True)
class Probe:
    """One number from one short launch.

    :ivar feature: that a stack needs to have the program.
    :ivar command: of the program, from the extras of the stack.
    :ivar read: reads standard output and standard error.
    :ivar size: of the messages [B] whose `column` is compared.
    """

    feature: str
    command: Callable[[dict], str]
    read: Callable[[str, str], Parsed]
    size: int
    column: str


def of_osu(name, column, size, iterations):
    command = f"osu_{name} -m {size}:{size} -i {iterations}"
    return Probe(
        "osu", lambda _: command, lambda out, _: osu.parse(out, last_size=size), size, column
    )


def of_netpipe(column, size, repeats):
    # NetPIPE needs at least two sizes. The first one is its warm-up.
    options = f"-p 0 -l {size // 2} -u {size} -n {repeats}"
    return Probe(
        "netpipe",
        lambda extras: f"{extras.get('netpipe_command', 'NPmpi')} {options}",
        lambda _, err: netpipe.parse(err, last_size=size),
        size,
        column,
    )


PROBES = {
    "osu-latency": of_osu("latency", "latency", 8, 10000),
    "osu-bandwidth": of_osu("bw", "bandwidth", MIB, 100),
    "netpipe-latency": of_netpipe("latency", 8, 5000),
    "netpipe-bandwidth": of_netpipe("bandwidth", MIB, 100),
}


@rfm.simple_test
class NativeAgainstContainer(MpiTransportCheck):
    """The ratio container / native, and whether it is 1 within the margin."""

    probe = parameter(list(PROBES))

    #: Number of pairs of launches; 0 takes the number of the profile.
    rounds = variable(int, value=0)

    #: Ratios from 1/(1 + margin) to 1 + margin are equivalent. `alpha` bounds wrong claims of it.
    margin = variable(float, value=0.02)
    alpha = variable(float, value=0.05)

    kind = "network"
    time_limit = "1h"
    tags = {"network", "equivalence"}
    declares = {"ratio": "1"}
    measures_anew = False  # repeating it until it is decided would add wrong claims
    # The number of ranks on each host and UCX's device prove the path. A witness would add to the
    # times of both stacks.
    witnessed = False

    @run_after("init")
    def select(self):
        self._probe = PROBES[self.probe]
        self.valid_prog_environs = [f"+container +{self._probe.feature}"]
        self.descr = f"native against container: {self.probe} over {self.transport}"

    @run_after("setup")
    def only_what_it_carries(self):
        self.leave_out(
            "no-case",
            self.transport == "cma" and self._probe.size < MIB,
            "UCX sends small messages over posix even if cma is requested: cma cannot be compared",
        )

    @run_before("run")
    def command(self):
        container, partition = self.current_environ, self.current_partition
        native = [
            environ
            for environ in partition.environs
            if "image" not in environ.extras and self._probe.feature in environ.features
        ]
        self.leave_out(
            "not-here",
            not native,
            f"{partition.fullname} has no stack with {self._probe.feature} beside the container",
        )
        stacks = self._stacks = {paired.NATIVE: native[0], paired.CONTAINER: container}
        ours, theirs = self.path_variables(), self.path_variables(stack=native[0])
        self.job.num_tasks = self.num_tasks  # ReFrame sets it later, but mpirun needs it here
        launch = self.job.launcher.run_command(self.job)
        self.rounds = self.rounds or ROUNDS[self.profile]
        self.prerun_cmds += paired.script(
            self.rounds,
            {name: f"{launch} {self._probe.command(s.extras)}" for name, s in stacks.items()},
            emit_loadenv_commands(native[0]),
            # The native stack must not see the variables that the container's stack sets either.
            {
                **dict.fromkeys({*ours, *container.env_vars} - {"PATH", *native[0].env_vars}, ""),
                **theirs,
            },
        )
        self.job.launcher = getlauncher("local")()
        self.executable = paired.ROUNDS
        self.keep_files += [f"{paired.NATIVE}.*", f"{paired.CONTAINER}.*"]

    def read(self):
        found = {}
        for stack, number, folder in paired.launches(self.rounds):
            try:
                parsed = self._probe.read(text(folder / "stdout"), text(folder / "stderr"))
            except ParseError as error:
                raise ParseError(f"{folder}: {error}") from None
            if not parsed.sound:
                raise ParseError(f"{folder}: {'; '.join(parsed.problems) or 'it is incomplete'}")
            found[stack, number] = parsed
        self._parts = found
        column, size = self._probe.column, self._probe.size
        rows = tuple(
            {"round": number, **{s: found[s, number].at(column, size=size) for s in self._stacks}}
            for number in range(self.rounds)
        )
        unit = found[paired.NATIVE, 0].units[column]
        return Parsed(
            "assay", "equivalence", None, True, rows,
            {"round": "1", paired.NATIVE: unit, paired.CONTAINER: unit},
        )  # fmt: skip

    def examine(self, parsed):
        """Checks each launch as in any MPI test: its world, its pml and its path."""
        problems, proofs = {}, {}
        for stack, number, folder in paired.launches(self.rounds):
            if not folder.is_dir():
                continue
            world = self.mpi_library.world(text(folder / "stderr"))
            proof = transports.prove(
                self.transport,
                transports.without_farewells(self.transport, said(folder), world.farewells),
                self.sizes(self._parts[stack, number]) if parsed else [],
                ucx_version=self._stacks[stack].extras["ucx_version"],
                processes=self.num_tasks,
            )
            found = [*self.world_problems(world), *proof.problems]
            for problem in found:
                problems.setdefault((stack, problem), number)
            proofs[stack] = {k: v for k, v in asdict(proof).items() if k != "problems"}
            proofs[stack].update(pml=sorted(world.pml), ranks=world.ranks_seen)
        self._record["transport"] = self.transport
        self._record["proof"] = proofs
        return [within(f"{stack}, round {n}", problem) for (stack, problem), n in problems.items()]

    def measure(self, parsed):
        ratios = [row[paired.CONTAINER] / row[paired.NATIVE] for row in parsed.rows]
        self._decision = decide(ratios, self.margin, self.alpha)
        self._record["equivalence"] = {**asdict(self._decision), "why": self._decision.why}
        return {"ratio": ratios}

    @run_after("performance")
    def pass_only_what_is_equivalent(self):
        if self.is_dry_run() or self.purpose == "calibration":
            return
        verdict, why = self._decision.verdict, self._decision.why
        if verdict is Equivalence.EQUIVALENT:
            return
        undecided = verdict is Equivalence.UNDECIDED
        self._close_record(Verdict.INCONCLUSIVE if undecided else Verdict.FAIL, [why])
        failure = PerformanceError(why)
        self._attempts.settle(failure)
        raise failure
