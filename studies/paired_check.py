"""The test that compares two ways to run one program over the same transport.

The test decides equivalence by statistics (`equivalence.py`) and does not assume it.
"""

from dataclasses import asdict

from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, variable
from reframe.core.exceptions import PerformanceError

from assay.judge import Verdict
from assay.parse import Parsed, ParseError, openmpi
from assay.prove import transports
from assay.prove.plan import within
from assay.run.mpi import MpiCheck, TransportMixin
from assay.run.ucx import said, text

from . import paired
from .equivalence import Equivalence, decide


class Paired(MpiCheck):
    """The ratio of the second way to the first, and whether it is 1 within the margin.

    A test implements :meth:`proof_of`.
    """

    #: Number of pairs of launches; 0 takes the number of the profile.
    rounds = variable(int, value=0)

    #: Ratios from 1/(1 + margin) to 1 + margin are equivalent. `alpha` bounds wrong claims of it.
    margin = variable(float, value=0.02)
    alpha = variable(float, value=0.05)

    kind = "network"
    time_limit = "1h"
    measures_anew = False  # repeating it until it is decided would add wrong claims
    # The number of ranks on each host and UCX's device prove the path.
    witnessed = False

    #: The names of both ways, and those whose logs prove the path.
    ways: tuple = ()
    proven: tuple = ()

    #: Metric -> column and message size [B] of the compared values.
    compared: dict = {}

    #: The program, a :class:`studies.paired.Program`.
    program = None

    def stack_of(self, way):
        """The stack of a way."""
        return self.current_environ

    def take_turns(self, bodies):
        """Puts the launches of both ways into the job; `bodies` is as for `paired.script`."""
        self.rounds = self.rounds or paired.NUMBER[self.profile]
        self.prerun_cmds += paired.script(self.rounds, {way: bodies[way] for way in self.ways})
        self.job.launcher = getlauncher("local")()
        self.executable = paired.ROUNDS
        self.keep_files += [f"{way}.*" for way in self.ways]

    def launch_command(self):
        """The command of the launcher, without the program."""
        self.say_how_many_ranks()
        self.job.num_tasks = self.num_tasks  # ReFrame sets it later, but mpirun needs it here
        return self.job.launcher.run_command(self.job)

    def read(self):
        found = {}
        for way, number, folder in paired.launches(self.ways, self.rounds):
            try:
                parsed = self.program.read(text(folder / "stdout"), text(folder / "stderr"))
            except ParseError as error:
                raise ParseError(f"{folder}: {error}") from None
            if not parsed.sound:
                raise ParseError(f"{folder}: {'; '.join(parsed.problems) or 'it is incomplete'}")
            found[way, number] = parsed
        self._parts = found
        rows = []
        units = {"round": "1"}
        for number in range(self.rounds):
            row = {"round": number}
            for column, size in self.compared.values():
                for way in self.ways:
                    row[f"{way}_{size}"] = found[way, number].at(column, size=size)
                    units[f"{way}_{size}"] = found[way, number].units[column]
            rows.append(row)
        return Parsed("assay", "equivalence", None, True, tuple(rows), units)

    def proof_of(self, way, folder, world, parsed):
        """What one launch proves about its path.

        :param folder: the directory of the launch.
        :param world: what the MPI reported, an :class:`assay.parse.openmpi.OpenMpi`.
        :param parsed: what the program printed; None if it cannot be read.
        :returns: a data class with ``problems``.
        """
        raise NotImplementedError

    def examine(self, parsed):
        """Checks each launch as in any MPI test: its world, its pml and its path."""
        problems, proofs = {}, {}
        for way, number, folder in paired.launches(self.ways, self.rounds):
            if not folder.is_dir() or way not in self.proven:
                continue
            world = openmpi.parse_openmpi(text(folder / "stderr"))
            of_launch = self._parts[way, number] if parsed else None
            proof = self.proof_of(way, folder, world, of_launch)
            for problem in [*self.world_problems(world), *proof.problems]:
                problems.setdefault((way, problem), number)
            proofs[way] = {k: v for k, v in asdict(proof).items() if k != "problems"}
            proofs[way].update(pml=sorted(world.pml), ranks=world.ranks_seen)
        self.record.proof = proofs
        return [within(f"{way}, round {n}", problem) for (way, problem), n in problems.items()]

    def measure(self, parsed):
        first, second = self.ways
        found = {}
        for metric, (_, size) in self.compared.items():
            pairs = zip(parsed.cells(f"{second}_{size}"), parsed.cells(f"{first}_{size}"))
            found[metric] = [one / other for one, other in pairs]
        self._decisions = {
            metric: decide(ratios, self.margin, self.alpha) for metric, ratios in found.items()
        }
        self.record.more["equivalence"] = {
            metric: {**asdict(one), "why": one.why} for metric, one in self._decisions.items()
        }
        return found

    @run_after("performance")
    def pass_only_what_is_equivalent(self):
        if self.is_dry_run() or self.purpose == "calibration":
            return
        found = self._decisions.items()
        why = [
            f"{metric}: {one.why}" for metric, one in found
            if one.verdict is not Equivalence.EQUIVALENT
        ]  # fmt: skip
        if not why:
            return
        differs = any(one.verdict is Equivalence.DIFFERENT for _, one in found)
        self._conclude(Verdict.FAIL if differs else Verdict.INCONCLUSIVE, why)
        self._write_record()
        failure = PerformanceError("; ".join(why))
        self._attempts.settle(failure)
        raise failure


class PairedCheck(TransportMixin, Paired):
    """Two ways over one transport."""

    def examine(self, parsed):
        self.record.transport = self.transport
        # The mixin would look for the logs in the job's directory. Each launch has one of its own.
        return Paired.examine(self, parsed)

    def proof_of(self, way, folder, world, parsed):
        return transports.prove_transport(
            self.transport,
            transports.without_farewells(self.transport, said(folder), world.farewells),
            self.sizes(parsed) if parsed else [],
            ucx_version=self.stack_of(way).extras["ucx_version"],
            processes=self.num_tasks,
        )
