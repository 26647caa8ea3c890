"""The base class of every test: no verdict without evidence.

ReFrame passes a run whose metric cannot be parsed, whose reference is for another system, or whose
program crashed after printing what the sanity pattern wanted. Tests that derive from
:class:`StrictCheck` do not.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError, SanityError

from assay import deadline
from assay.checks import (
    attempts,
    busy,
    launch,
    quick_warnings,  # noqa: F401
    record,
    samples,
    service,
    shared,
)
from assay.checks.partition import OnPartition
from assay.checks.record import BUSY
from assay.checks.site import site_references
from assay.judge import (
    LAUNCHES_TO_FAIL,
    Reference,
    ReferencesError,
    Verdict,
    judge,
    worst,
)
from assay.outputs import Parsed, ParseError

#: Keeps a case from passing.
AGAINST = (Verdict.FAIL.value, Verdict.INCONCLUSIVE.value)

#: How many problems the failure message of ReFrame names; the record has all of them.
NAMED_PROBLEMS = 4

#: How long a job may wait in the queue where the site does not say.
MAX_PENDING = "1d"


@dataclass(frozen=True)
class Peak:
    """What a metric is a percentage of.

    :ivar what: in words, with where it was measured or published.
    :ivar value: in the unit of the metric.
    """

    what: str
    value: float


class StrictCheck(OnPartition, rfm.RunOnlyRegressionTest):
    """A benchmark whose every number has evidence.

    ==================  ==========================================================================
    a test says         with
    ==================  ==========================================================================
    what runs           ``executable``, ``executable_opts``, ReFrame's own variables
    where               ``valid_systems``, ``valid_prog_environs``: feature words, no site names
    what was printed    :meth:`read`, from text to :class:`assay.outputs.Parsed`
    what counts         ``declares`` (metric -> unit) and :meth:`measure`
    what it is % of     :meth:`peaks`, where the same run measured or the hardware states a peak
    ==================  ==========================================================================

    Enforced here, for all of them: the exit code of the benchmark; a complete output of a known
    program and version without a problem; every declared metric there and finite; the world of the
    size that was asked for and the data path under test (:class:`assay.checks.mpi.MpiCheck`); a
    reference, or the site's reason for having none.
    """

    #: What is measured: ``network``, ``compute``, ``storage`` or ``node``.
    #:
    #: :type: :class:`str`
    #: :default: *required*
    kind = variable(str)

    #: How much is run: ``smoke`` (minutes in all) or ``full``. Set by ReFrame's ``--mode``.
    #:
    #: :type: :class:`str`
    #: :default: ``'full'``
    profile = variable(typ.Str["smoke|full"], value="full")

    #: ``acceptance`` judges by the site's references; ``calibration`` looks at none.
    #:
    #: :type: :class:`str`
    #: :default: ``'acceptance'``
    purpose = variable(typ.Str["acceptance|calibration"], value="acceptance")

    #: Every metric that this test promises, with its unit.
    #:
    #: :type: :class:`dict` of metric to unit
    #: :default: ``{}``
    declares = variable(dict, value={})

    #: Whether the program is started by the partition's parallel launcher.
    #:
    #: :type: :class:`bool`
    #: :default: ``False``
    parallel = variable(bool, value=False)

    #: Whether another launch is another measurement; of what a test compares, the tests that it
    #: depends on are launched again with it. One that says no has its first verdict stand.
    #:
    #: :type: :class:`bool`
    #: :default: ``True``
    measures_anew = variable(bool, value=True)

    #: Whether the test says something against the machine beyond its references, see
    #: :meth:`accused`.
    judges_itself = False

    #: What other work took of the machine during the last launch, where that is asked and known.
    others: busy.Others | None = None

    #: Metric -> its value by the last launch.
    _newest: Mapping[str, float] = {}

    # --- what a test implements -----------------------------------------------------------------

    def read(self) -> Parsed:
        """The output as typed rows. Runs in the stage directory.

        :raises assay.outputs.ParseError: the output is not of the program that was started.
        """
        raise NotImplementedError

    def stdout_text(self) -> str:
        """Standard output of the job, whatever bytes are in it. Runs in the stage directory."""
        return Path(str(self.stdout)).read_text(encoding="utf-8", errors="replace")

    def stderr_text(self) -> str:
        """Standard error of the job, likewise."""
        return Path(str(self.stderr)).read_text(encoding="utf-8", errors="replace")

    def measure(self, parsed: Parsed) -> Mapping[str, samples.Measured]:
        """Each declared metric: with its unit as the output gives it, or a number of our own.

        A number of our own (a ratio) may be one value for each launch.
        """
        raise NotImplementedError

    def peaks(self, parsed: Parsed) -> Mapping[str, Peak]:
        """The peak of any metric that has one."""
        return {}

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Problems beyond the output, one line each; `parsed` is None if it was unreadable."""
        return []

    def accused(self, parsed: Parsed) -> list[str]:
        """What the numbers say against the machine, one line each: a node that is slow.

        Runs after :meth:`examine`. Other work on the machine may be what explains it.
        """
        return []

    # --- what the job script adds ---------------------------------------------------------------

    @run_before("setup")
    def _end_if_settled(self) -> None:
        # The partition and the environment are the case's own before setup.
        name, partition, environ = self.unique_name, *list(self._case())[1:]
        self._attempts_key = (name, partition.fullname, environ.name)
        self._attempts = attempts.of(self._attempts_key)
        failure = None if self.is_dry_run() else self._attempts.settled()
        if failure:
            if self._attempts.stagedir:
                self._stagedir = self._attempts.stagedir  # where ReFrame and the report look
            raise failure
        if not self.is_dry_run() and (why := deadline.reached()):
            self.skip(f"{why} before it was begun")

    @run_after("setup")
    def _only_what_smoke_has(self) -> None:
        partition = self.current_partition
        smoke = partition.extras.get("smoke")
        self.skip_if(
            self.profile == "smoke"
            and smoke is not None
            and not {*map(str, self.identity().values())} & {*smoke},
            f"the smoke profile of {partition.fullname} is {', '.join(smoke or ())}",
        )

    @run_after("setup")
    def _wait_no_longer_than_the_site_says(self) -> None:
        # A job of more nodes than are up is in the queue for ever.
        self.max_pending_time = self.current_partition.extras.get("max_pending", MAX_PENDING)

    @run_after("setup")
    def _end_with_its_node(self) -> None:
        # By default Slurm begins a job anew whose node has died, and so hides that it died.
        if self.current_partition.scheduler.registered_name in ("slurm", "squeue"):
            self.job.options.append("--no-requeue")

    def _refuse(self, problems: Sequence[str]) -> NoReturn:
        """Fails before there is a benchmark, for good: another attempt would find the same."""
        failure = SanityError("; ".join(problems))
        self._attempts.settle(failure)
        raise failure

    @run_after("setup")
    def _choose_launcher(self) -> None:
        if not self.parallel:
            self.job.launcher = getlauncher("local")()
        # Cases of all partitions of one machine then share ReFrame's limit `max_local_jobs`.
        self.local = self.current_partition.scheduler.is_local

    @run_before("run")
    def _reach_into_the_image(self) -> None:
        # Wrappers bind the working directory; what else is under test is in no image.
        stack = self.current_environ.extras
        if "image" not in stack:
            return
        if directory := self.current_partition.extras.get("directory"):
            bound = f"{shlex.quote(directory)}${{APPTAINER_BIND:+,$APPTAINER_BIND}}"
            self.prerun_cmds.insert(0, f"export APPTAINER_BIND={bound}")
        one_node = self.num_tasks <= (self.num_tasks_per_node or self.num_tasks)
        self.skip_if(
            self.parallel
            and stack.get("contained", False)
            and not (one_node and self.job.launcher.registered_name == "mpirun"),
            f"all ranks of the stack {self.current_environ.name} are in one container: on one "
            "node, started by mpirun",
        )

    @run_before("run", always_last=True)
    def _witness_the_launch(self) -> None:
        if not self.is_dry_run() and (why := shared.too_busy(self)):
            self.skip_if(not shared.judged(self), f"{BUSY}: {why}")
            self._record = record.begin(self)
            self._attempts.stagedir = self.stagedir
            self._attempts.settle(failure := SanityError(self._undecided(why, [])))
            raise failure
        self.prerun_cmds.insert(0, launch.FIRST)
        self.postrun_cmds[:0] = launch.BEHIND
        if ours := shared.ours(self):
            self.prerun_cmds += [*busy.script(ours), launch.SHARED_BEFORE]
            self.postrun_cmds[len(launch.BEHIND) : len(launch.BEHIND)] = launch.SHARED_BEHIND
        self.prerun_cmds.append(launch.BEFORE)
        self.postrun_cmds.append(launch.LAST)
        self.keep_files.extend([record.FILE, launch.FILE])
        if not self.is_dry_run():
            self._attempts.begin(self.stagedir)

    # --- evidence -------------------------------------------------------------------------------

    @sanity_function
    def evidence(self) -> bool:
        """Fails, naming the cause, unless the run can be believed."""
        self._record = record.begin(self)
        self._end_if_not_begun()
        problems, seconds = self._launch()
        parsed, doubts = None, []
        try:
            parsed = self.read()
        except ParseError as error:
            problems.append(f"{self._program()}: {error}")
        except OSError as error:
            problems.append(f"{self._program()} left no {error.filename} ({error.strerror})")
        else:
            problems += [
                f"{parsed.program}: {problem}"
                for problem in parsed.problems
                if problem not in parsed.rounded
            ]
            doubts = [f"{parsed.program}: {problem}" for problem in parsed.rounded]
            if not parsed.complete:
                problems.append(f"{parsed.program}: the output is incomplete: it stops half-way")
        problems += self.examine(parsed)
        if parsed is not None:
            doubts += self.accused(parsed)
        busy_with = shared.disturbance(self) if doubts and not problems else ""
        problems[:0] = doubts
        if problems:
            problems[:0] = self._nodes_lost()
        self._parsed = parsed
        self._record.update(record.of_output(parsed), seconds=seconds)
        if self.others is not None:
            self._record["others"] = asdict(self.others)
        if busy_with:
            raise SanityError(self._undecided(busy_with, doubts))
        self._close_record(Verdict.FAIL if problems else Verdict.RECORDED, problems)
        if problems:
            more = len(problems) - NAMED_PROBLEMS
            named = problems[:NAMED_PROBLEMS] + (
                [f"{more} more in {record.FILE}"] if more > 0 else []
            )
            failure = SanityError("; ".join(named))
            self._attempts.settle(failure)
            raise failure
        return True

    def _end_if_not_begun(self) -> None:
        """Skips or fails where the job found out by itself that it could not run the benchmark."""
        skipped, refused = Path(launch.SKIPPED_FILE), Path(launch.REFUSED_FILE)
        if skipped.exists():
            self.skip(skipped.read_text(encoding="utf-8").strip())
        if refused.exists():
            problems = [refused.read_text(encoding="utf-8").strip()]
            self._close_record(Verdict.FAIL, problems)
            self._refuse(problems)

    def _program(self) -> str:
        return Path(str(self.executable)).name

    def _launch(self) -> tuple[list[str], dict[str, float]]:
        """Problems of the launch, and its times as :func:`assay.checks.launch.times` has them."""
        unknown = {"benchmark": 0.0, "began": 0.0}
        try:
            ended = launch.parse(Path(launch.FILE).read_text(encoding="utf-8"))
        except OSError:
            if not Path(str(self.stdout)).exists():
                waited = self.max_pending_time
                limit = f"; it was to wait no longer than {waited:.0f} s" if waited else ""
                return [f"its job never began{limit}"], unknown
            return [
                f"the job script did not reach its end: killed, or out of time{self._last_words()}"
            ], unknown
        except ValueError as torn:
            return [str(torn)], unknown
        times = launch.times(ended, self.job)
        self.others = ended.others
        if ended.rc == 0:
            return [], times
        signal = f" (signal {ended.signal})" if ended.signal else ""
        # Of a parallel launch the last words are the launcher's.
        words = "" if self.parallel else self._last_words()
        return [f"{self._program()} ended with exit code {ended.rc}{signal}{words}"], times

    def _nodes_lost(self) -> list[str]:
        """Nodes of the job that are out of service now; of one that never began, why it waited."""
        scheduler = self.current_partition.scheduler
        if self.hosts:
            return service.lost(scheduler, self.hosts)
        wanted = -(-(self.num_tasks or 1) // (self.num_tasks_per_node or 1))
        return service.in_service(scheduler, self.job, wanted)[1]

    def _last_words(self) -> str:
        """What was said last on standard error, to be put behind a problem."""
        try:
            said = reversed(self.stderr_text().split("\n"))
        except OSError:  # a job that never began
            return ""
        return next((f": {line.strip()}" for line in said if line.strip()), "")

    # --- verdict --------------------------------------------------------------------------------

    @run_before("performance")
    def _judge(self) -> None:
        if self.is_dry_run():
            return
        own = [name for name in self.perf_variables if name not in self.declares]
        if own:
            # ReFrame passes a run in which such a function raises.
            self._fail([f"metric {name!r} does not come from measure()" for name in own])
        if not self.declares:
            self._attempts.passed = True
            return
        parsed = self._parsed
        assert parsed is not None, "sanity fails without one"
        try:
            measured = dict(self.measure(parsed))
            peaks = dict(self.peaks(parsed))
        except (LookupError, TypeError, ValueError, ZeroDivisionError) as error:
            self._fail([f"metrics cannot be read from the output of {parsed.program}: {error}"])
        values, problems = samples.of(measured, self.declares)
        if problems:
            self._fail(problems)
        self._newest = {name: statistics.median(of_launch) for name, of_launch in values.items()}
        busy_with = shared.disturbance(self)
        if busy_with and self._disturbed(self._judge_all(values, peaks), busy_with):
            return  # ReFrame stores the values, and then it is red
        metrics = self._judge_all(self._attempts.add(values), peaks)
        self._record["metrics"] = metrics
        verdict = worst(Verdict(m["verdict"]) for m in metrics.values())
        self._close_record(verdict, [])
        if verdict in (Verdict.PASS, Verdict.RECORDED):
            # Of a test with a verdict of its own that may follow.
            self._attempts.passed = self.measures_anew
        elif not self.measures_anew or (
            verdict is Verdict.FAIL and self._attempts.counted >= LAUNCHES_TO_FAIL
        ):
            self._attempts.settle(PerformanceError(self._said_against()))

    def _judge_all(
        self, values: Mapping[str, list[float]], peaks: Mapping[str, Peak]
    ) -> dict[str, Any]:
        metrics: dict[str, Any] = {}
        errors = []
        for name, unit in self.declares.items():
            try:
                metrics[name] = self._judge_one(name, unit, values[name], peaks.get(name))
            except ReferencesError as error:
                errors.append(str(error))
        if errors:
            self._record["metrics"] = metrics
            self._fail(errors)
        return metrics

    def _disturbed(self, metrics: dict[str, Any], why: str) -> bool:
        """Whether a launch counts for nothing: beside other work, and not within its bounds."""
        bad = [m for m in metrics.values() if m["verdict"] in AGAINST]
        for metric in bad:
            metric["verdict"] = Verdict.INCONCLUSIVE.value
        if bad:
            self._record["metrics"] = metrics
            self._undecided(why, [f"{n}: {m['why']}" for n, m in metrics.items() if m in bad])
        return bool(bad)

    def _undecided(self, why: str, against: Sequence[str]) -> str:
        """Closes the record of a launch that counts for nothing, and returns the reason."""
        said = "; ".join([f"{BUSY}: {why}", *against])
        self._record["busy"] = why
        self._close_record(Verdict.INCONCLUSIVE, [said])
        self._attempts.disturb()
        if not self.measures_anew or self._attempts.disturbed >= LAUNCHES_TO_FAIL:
            self._attempts.settle(PerformanceError(said))
        return said

    def _said_against(self) -> str:
        """Every metric that keeps this case from passing, with the reason; empty if none does."""
        if "busy" in self._record:
            return str(self._record["problems"][0])
        return "; ".join(
            f"{name}: {metric['verdict']}: {metric['why']}"
            for name, metric in self._record.get("metrics", {}).items()
            if metric["verdict"] in AGAINST
        )

    def _judge_one(
        self, name: str, unit: str, values: list[float], peak: Peak | None
    ) -> dict[str, Any]:
        middle = statistics.median(values)  # what `judge` speaks of
        self.perf_variables[name] = sn.make_performance_function(sn.defer(middle), unit)
        entry = record.of_metric(middle, unit, values)
        if peak:
            entry["percent_of"] = record.of_peak(peak.what, peak.value, middle, unit)
        if self.purpose == "calibration":
            return {**entry, "verdict": Verdict.RECORDED.value, "why": "calibration run"}
        expected = site_references().find(self.case(), name, unit, peak.value if peak else None)
        if not isinstance(expected, Reference):
            return {**entry, "verdict": Verdict.RECORDED.value, "why": expected.why}
        judgement = judge(values, expected)
        # For ReFrame to show and store. It gets no bounds: it would judge the median by them, and
        # knows no third verdict.
        where = self.current_partition.fullname
        self.reference[f"{where}:{name}"] = (expected.value, None, None, unit)
        return {**entry, **record.of_judgement(expected, judgement)}

    @run_after("performance")
    def _no_pass_without_verdict(self) -> None:
        """After ReFrame has stored the values, whatever was said of them."""
        if not self.is_dry_run() and (bad := self._said_against()):
            raise PerformanceError(bad)

    def value(self, metric: str) -> float:
        """A metric of this case, by its last launch, for a test that depends on it.

        :raises KeyError: there is none.
        """
        return self._newest[metric]

    @property
    def hosts(self) -> list[str]:
        """Where the job ran, as far as the scheduler said; read once it has ended."""
        # Of a job that it never saw running ReFrame 4.10.4 asks Slurm for the hosts of "None".
        return [name for name in self.job.nodelist or () if name != "None"]

    def launches(self) -> int:
        """How often this case was launched in this session so far."""
        return self._attempts.launches

    def identity(self) -> dict[str, Any]:
        """The test and its parameters, wherever it runs."""
        # Parameters of ReFrame's own (--repeat, --distribute) begin with a dot.
        names = (name for name in type(self).raw_params if not name.startswith("."))
        parameters = {name: getattr(self, name) for name in names}
        return {"test": type(self).__name__.split("_")[0], **parameters}

    def case(self) -> dict[str, Any]:
        """What the site's references are looked up by."""
        return {
            "partition": self.current_partition.name,
            "environ": self.current_environ.name,
            "profile": self.profile,
            **self.identity(),
        }

    def _fail(self, problems: list[str]) -> None:
        self._close_record(Verdict.FAIL, problems)
        failure = PerformanceError("; ".join(problems))
        self._attempts.settle(failure)
        raise failure

    def _close_record(self, verdict: Verdict, problems: list[str]) -> None:
        self._record.update(verdict=verdict.value, problems=problems)
        record.write(Path(self.stagedir) / record.FILE, self._record)
