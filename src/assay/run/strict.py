"""The base class of every test: no verdict without evidence.

ReFrame passes a run whose metric cannot be parsed, or whose reference is for another system. It
also passes a run whose program crashed after it printed what the sanity pattern expects. Tests that
derive from :class:`StrictCheck` do not pass in these cases.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import statistics
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError, ReframeSyntaxError, SanityError

from assay import accused, catalogue, deadline, files, judge, reframe_compat, slurm
from assay import metrics as known
from assay.declared import Figure
from assay.judge import RED, Peak, Ratios, ReferencesError, Verdict, of_peak
from assay.parse import Parsed, formulas
from assay.prove import busy, counters, launch, links, mpi, node_state, plan, steering
from assay.reframe_compat import runner, testcase
from assay.run import attempts, job_request, options, outputs, site
from assay.run.ucx import text
from assay.store import record as store

if TYPE_CHECKING:
    from assay.judge import curves
    from assay.prove.groups import Between

#: How many problems the failure message of ReFrame names; the record has all of them.
NAMED_PROBLEMS = 4


class StrictCheck(rfm.RunOnlyRegressionTest):
    """A benchmark with evidence for every number.

    A test states by variables of ReFrame what runs, and where: by feature words of partitions and
    stacks, not by names of sites.

    docs/adding-a-benchmark.md has what each base class enforces.

    A test runs in these phases, in which it may add hooks; it overrides no hook of this class.

    ============  =====================================  ==========================================
    phase         what happens here                      what a test does there
    ============  =====================================  ==========================================
    before setup  a settled case ends                    (nothing: partition and stack are unknown)
    after setup   whether ranks can be started here;     implements :meth:`place_ranks`; chooses
                  smoke profile, queue, launcher         sizes and inputs; skips what the partition
                                                         cannot run
    before run    last, the deadline, what the job asks  sets ``executable_opts``, ``prerun_cmds``,
                  for, witnesses around all commands     ``env_vars``
    sanity        is the run believed: exit code,        implements :meth:`read`, :meth:`requested`,
                  output, problems, load                 :meth:`examine`, :meth:`missed`,
                                                         :meth:`accused`
    and then      is it good: metrics against            implements :meth:`measure`, :meth:`peaks`,
                  references, curves against             states :attr:`curve`
                  plausibility; the record is written
    performance   ReFrame stores the values; then what   (nothing)
                  has not passed fails
    ============  =====================================  ==========================================
    """

    #: What is measured: ``network``, ``compute``, ``storage`` or ``node``. Every test states it.
    kind = variable(str)

    #: How much is run: ``smoke`` (minutes in all) or ``full``. Set by ReFrame's ``--mode``.
    profile = variable(typ.Str["smoke|full"], value="full")

    #: ``acceptance`` judges by the site's references; ``calibration`` ignores them.
    purpose = variable(typ.Str["acceptance|calibration"], value="acceptance")

    #: Every metric that this test promises -> its unit, one of :mod:`assay.metrics`.
    declares = variable(dict, value={})

    #: The figures that each case is a part of: a list of :class:`assay.declared.Figure`.
    figures = variable(typ.List[Figure], value=[], loggable=False)

    #: What is at fault (see :data:`assay.show.nodes.PARTS`) -> a pattern of metrics that show it.
    proves = variable(typ.Dict[str, str], value={}, loggable=False)

    #: Fewest launches of a case that passes; less than the default changes nothing. If launches are
    #: slow by chance, like a coin, one case of four passes on two of them, and one of 64 on six.
    least_launches = variable(int, value=1)

    #: Tests, or values of parameters, that the smoke profile runs on a partition; all if None.
    smoke = variable(typ.List[str], type(None), value=None)

    #: The pattern of communication behind rows with a column ``size``: a key of
    #: ``judge/curves.yaml``, which says what such a curve may show at most.
    curve = "point-to-point"

    #: Whether the program is started by the partition's parallel launcher.
    parallel = variable(bool, value=False)

    #: Whether another launch gives another measurement. If the test compares others, the tests that
    #: it depends on are launched again with it. If the value is false, the first verdict stands.
    measures_anew = variable(bool, value=True)

    #: Profiles in which the time limit only ends what hangs, so that it may be shorter.
    _hurries: Collection[str] = ("smoke",)

    _attempts: attempts.Attempts
    _nonce: str = ""

    #: Of the last launch: its record for the store, and what its job script wrote of it; None if
    #: the script did not reach its end.
    record: store.Record = store.NONE
    _launched: launch.Launch | None = None

    #: What the job script found on its node after the benchmark; None if it did not look. The
    #: settings that are the machine's own, as far as it saw them.
    _node_after: steering.Node | None = None
    _machine: plan.Machine = plan.Machine()

    #: The output of the last launch, the value of each metric, and why it did not pass.
    _parsed: Parsed | None = None
    _newest: Mapping[str, float] = {}
    _unjudged: Mapping[str, str] = {}
    _failure: PerformanceError | None = None

    @classmethod
    def __init_subclass__(cls, **options: Any) -> None:
        """Refuses a class whose tests would pass without this evidence."""
        super().__init_subclass__(**options)
        if name := testcase.other_sanity(cls, StrictCheck):
            raise ReframeSyntaxError(
                f"{cls.__qualname__}: @sanity_function {name}() would replace Assay's evidence: "
                "take it out, and write read() in its place, see docs/my-benchmark.md"
            )

    # What a test implements ----------------------------------------------------------------------

    def place_ranks(self) -> None:
        """Chooses the number of processes and of nodes; by default one. Runs after setup."""

    def launch_prefix(self) -> list[str]:
        """Words before the program that start each rank, whose files it puts where ranks run."""
        return []

    def before_the_run(self) -> list[str]:
        """Commands of the job script before the run that is judged. The launcher is complete."""
        return []

    def read(self) -> Parsed:
        """The output as typed rows. Runs in the stage directory.

        :raises assay.parse.ParseError: the output is not of the program that was started.
        """
        raise NotImplementedError

    def requested(self) -> Mapping[str, Any]:
        """What the output must repeat.

        The keys are ``program``, a fact of the parser, a column of counts (each row must have the
        value), or ``sizes`` (the column ``size``, in its order).

        A wrapper, another program of the same name, or an option that was ignored would otherwise
        measure something else.
        """
        return {}

    def claimed(self, parsed: Parsed) -> float:
        """How long the program says that it worked, at least [s]; by default the column `time`."""
        if parsed.units.get("time") != "s":
            return 0.0
        return sum(float(row["time"]) for row in parsed.rows)

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Problems beyond the output, one line each; `parsed` is None for an unreadable output."""
        return []

    def _causes(self) -> list[str]:
        """Faults of the node that explain other problems, one line each; they are named first.

        Runs after :meth:`examine`.
        """
        return []

    def missed(self) -> str:
        """Evidence that this launch lacks, in one line; empty if nothing is missing.

        Runs after :meth:`examine`. Chance can explain the gap, for example on a busy machine. The
        launch does not count, and the case is launched again.
        """
        return ""

    def accused(self, parsed: Parsed) -> list[str]:
        """Faults of the machine that the numbers show, such as a slow node, one line each.

        Runs after :meth:`examine`. Other work on the machine may explain these faults.
        """
        return []

    def measure(self, parsed: Parsed) -> Mapping[str, outputs.Measured]:
        """Each declared metric: a quantity with its unit from the output, or a computed number.

        A computed number (a ratio) may be one value for each launch.
        """
        raise NotImplementedError

    def counted(self, row: Mapping[str, Any]) -> tuple[int, int] | None:
        """How many messages the time of a row is the mean of, and how many went before them.

        None if both are many. Of few messages, what a launch pays once is a part of the time.
        """
        return None

    def peaks(self, parsed: Parsed) -> Mapping[str, Peak]:
        """The peak of each metric that has one."""
        return {}

    def unjudged(self, parsed: Parsed) -> Mapping[str, str]:
        """The metrics that say nothing of the machine in this launch, each with the reason."""
        return {}

    # Phase setup: whether a case is launched -----------------------------------------------------

    @run_after("init")
    def _change_reframe(self) -> None:
        # A site has done so. A configuration that knows nothing of Assay has not.
        reframe_compat.install()

    @run_before("setup")
    def _begin_unless_settled(self) -> None:
        # Before setup, only the test case knows its partition.
        partition, environ = testcase.place(self)
        try:
            options.take(self, partition.extras.get("options", {}))
        except ValueError as error:
            raise site.misdescribed(partition, str(error)) from None
        self._attempts = attempts.attempts_of((self.unique_name, partition.fullname, environ.name))
        if self.is_dry_run():
            return
        if failure := self._attempts.settled():
            if jobs := self._attempts.jobs:
                testcase.move(self, jobs[-1].workdir)
            raise failure

    @run_after("setup")
    def _prepare_the_job(self) -> None:
        partition = self.current_partition
        if problems := known.unknown(self.declares):
            raise ReframeSyntaxError("; ".join(problems))
        launcher, here = partition.launcher_type, partition.scheduler.is_local
        why = job_request.unable(launcher, self.parallel, here)
        name = f"{partition.fullname}: the launcher {launcher.registered_name}"
        self.leave_out("not-here", why, f"{name} {why}")
        # ReFrame has just emptied the stage directory. What is older than this file is not of the
        # launch.
        self._nonce = secrets.token_hex(8)
        (Path(self.stagedir) / launch.NONCE_FILE).write_text(self._nonce + "\n")
        if self.profile == "smoke" and self.smoke is not None:
            out = {*self.smoke}.isdisjoint(map(str, self.identity().values()))
            why = f"the smoke profile of {partition.fullname} is {', '.join(self.smoke)}"
            self.leave_out("not-asked", out, why)
        # A job that asks for more nodes than are up stays in the queue for ever.
        self.max_pending_time = partition.extras.get("max_pending", job_request.MAX_PENDING)
        # By default Slurm restarts a job after its node has died, which hides the failure.
        if partition.scheduler.registered_name in slurm.SCHEDULERS:
            self.job.options.append("--no-requeue")
        if not self.parallel:
            self.job.launcher = getlauncher("local")()
        # The cases of all partitions on one machine then share ReFrame's limit `max_local_jobs`.
        self.local = here
        self.place_ranks()

    # Phase run: what the job asks for, and what its script adds ----------------------------------

    @run_before("run", always_last=True)
    def _complete_the_job(self) -> None:
        if (why := deadline.reached()) and not self.is_dry_run():
            self.skip(f"{why} before it was begun")
        self.say_how_many_ranks()
        self.prerun_cmds += self.before_the_run()
        self.job.launcher.options = [*self.job.launcher.options, *self.launch_prefix()]
        self._ask_the_scheduler()
        self._surround_the_commands()
        if not self.is_dry_run():
            self._attempts.jobs.append(self.job)

    def say_how_many_ranks(self) -> None:
        """Completes the launcher's command, which a test may write into the job script itself."""
        if not self.parallel:
            return
        launcher, words = self.job.launcher, self._launch_words()
        if "None" in words:  # of a site whose tests all state the cores of a rank
            self.num_cpus_per_task: Any = self.num_cpus_per_task or 1
        # Without a number, mpiexec may start one rank.
        if self._starter == "mpirun" and not job_request.NUMBERED.search(words):
            launcher.options = ["-n", str(self.num_tasks), *launcher.options]

    def _ask_the_scheduler(self) -> None:
        """Completes the request, or skips the case. Runs when everything else is known."""
        partition, job = self.current_partition, self.job
        ranks = self.num_tasks or 1
        request = job_request.Request(
            scheduler=str(job.scheduler.registered_name),
            access=partition.access, own=[*job.options, *job.cli_options],
            resources=partition.resources, extras=partition.extras,
            processes=ranks, nodes=-(-ranks // (self.num_tasks_per_node or ranks)),
        )  # fmt: skip
        by_local = self.parallel and partition.launcher_type.registered_name == "local"
        why = request.unstartable(by_local)
        needed = f"{ranks} ranks on {request.nodes} nodes are needed"
        self.leave_out("not-here", why, f"{partition.fullname}: {why}, {needed}")
        stated = request.scheduler, partition.access, partition.time_limit
        limit, where = job_request.shortest_limit(*stated)
        if limit and self.time_limit and self.time_limit > limit:
            why = f"{partition.fullname} ends a job after {limit / 60:g} min ({where})"
            why += f"; the case may take {self.time_limit / 60:g} min"
            self.leave_out("too-small", self.profile not in self._hurries, why)
            self.time_limit: Any = limit
        if request.scheduler in ("local", "ssh"):  # these allocate nothing
            return
        asking, why = request.gpus(self.num_gpus_per_node or 0)
        self._undescribed(why, why)
        accounts, empty = request.accounts(self.current_environ.resources, self.extra_resources)
        hints = [job_request.EMPTY.format(*each) for each in empty]
        self.extra_resources.update(asking | accounts)
        if self.declares or self.parallel:  # others only look whether something is there
            try:
                more, hint = request.whole_nodes()
            except ValueError as error:
                self._undescribed(True, str(error))
            job.options += more
            hints += [hint] if hint else []
        for line in hints:
            job_request.say_once(partition.fullname, line)

    def _surround_the_commands(self) -> None:
        """Puts the witnesses of the launch around all commands of the test."""
        stack, stage = self.current_environ.extras, Path(self.stagedir)
        # The wrappers bind the working directory. Nothing else under test is in the image.
        if "image" in stack and (directory := self.current_partition.extras.get("directory")):
            bound = f"{shlex.quote(directory)}${{APPTAINER_BIND:+,$APPTAINER_BIND}}"
            self.prerun_cmds.insert(0, f"export APPTAINER_BIND={bound}")
        shutil.copy(steering.WITNESS, stage)
        # What the site and the test ask for may be written down, too.
        names = [steering.RECORDED.read_text(encoding="utf-8"), *self._requested_variables(), ""]
        (stage / steering.RECORDED.name).write_text("\n".join(names))
        # A test of a node without a benchmark has nothing that a counter could disturb.
        measures = self.kind != "node"
        if measures:
            (stage / counters.SCRIPT).write_text(counters.script())
            self.prerun_cmds.insert(0, counters.in_job("before"))
            self.postrun_cmds.insert(0, counters.in_job("after"))
        self.prerun_cmds.insert(0, launch.FIRST)
        self.postrun_cmds[:0] = launch.BEHIND
        if mpirun := stack.get("compiled_with"):
            self.prerun_cmds.insert(0, launch.same_mpi(mpirun))
        if self._others:
            self.prerun_cmds += [*busy.script(self._others), launch.SHARED_BEFORE]
            self.postrun_cmds[len(launch.BEHIND) : len(launch.BEHIND)] = launch.SHARED_BEHIND
        if measures:
            self.prerun_cmds.append(counters.WAIT)
            self.postrun_cmds += [steering.OF_JOB, counters.WAIT]
        self.prerun_cmds.append(launch.BEFORE)
        self.postrun_cmds.append(launch.LAST)
        self.keep_files += [store.FILE, launch.FILE, steering.RANKS, steering.JOB]
        self.keep_files += counters.FILES if measures else []

    # Phase sanity: whether the run can be believed, and what it is worth -------------------------

    @sanity_function
    def _evidence(self) -> bool:
        """Fails and names the cause, unless the run can be believed; judges what was measured."""
        testcase.hide_values(self)
        self.record = store.begin_record(self, self._keys(), self._attempts.jobs)
        self._failure = None
        try:
            self._judge(self._believe())
        except PerformanceError as failure:
            self._failure = failure  # raised when ReFrame has stored the values
        finally:
            # Also before an error of the test itself: what was found until then is not lost.
            if self.record.verdict or self.record.seconds.began is not None:
                self._write_record()
        return True

    def _believe(self) -> Parsed:
        """The output of a launch that can be believed.

        :raises reframe.core.exceptions.SanityError: it cannot be; the record says why.
        """
        self._end_if_not_begun()
        problems, seconds = self._launch()
        of_job = self._look_at_the_job() if self._launched and self.kind != "node" else []
        self._parsed, wrong = outputs.read_output(self.read, self._program(), bool(problems))
        parsed = self._parsed
        rounded = [f"{parsed.program}: {problem}" for problem in parsed.rounded] if parsed else []
        problems += wrong + (outputs.not_as_requested(parsed, self.requested()) if parsed else [])
        problems += self._of_another_launch(parsed) + of_job + self.examine(parsed)
        problems += [*self._other_machine(), *counters.beside(Path())]
        problems, doubts, notes = plan.sorted_out(problems)
        unhealthy, doubtful = self._health_of_nodes()
        problems[:0] = [*unhealthy, *self._causes()]
        slow = [*doubtful, *(self.accused(parsed) if parsed is not None else [])]
        missed = "" if problems or doubtful else self.missed()
        moved = [*rounded, *slow]
        busy_with = self._disturbance() if moved or missed else ""
        if missed and busy_with and self._of_a_person:
            moved, missed = [missed, *moved], ""
        if problems and busy_with:
            # What failed is red all the same, but other work may explain the rest.
            slow = [f"{one} (accuses nobody: {busy_with})" for one in slow]
            busy_with = ""
        problems += [*rounded, *slow]
        if problems:
            problems[:0] = self._nodes_lost()
        record = self.record
        record.doubts, record.notes, record.seconds = tuple(doubts), tuple(notes), seconds
        if parsed is not None:
            record.units |= known.own(parsed.units.values())
            record.family, record.program = parsed.family, parsed.program
            record.version, record.parsed = parsed.version or "", store.of_output(parsed)
        if missed or busy_with:
            if said := self._undecided(missed or busy_with, moved, busy=not missed):
                raise SanityError(said)
        elif problems:
            self._conclude(Verdict.FAIL, problems)
            more = len(problems) - NAMED_PROBLEMS
            rest = [f"{more} more in {store.FILE}"] if more > 0 else []
            self._refuse(problems[:NAMED_PROBLEMS] + rest)
        else:
            # A case with metrics has no verdict until they are judged.
            self._conclude(None if self.declares else Verdict.RECORDED, [])
        assert parsed is not None, "an output that cannot be read is a problem"
        return parsed

    def _end_if_not_begun(self) -> None:
        """Skips or fails the case if the job itself found that the benchmark could not run."""
        skipped, refused = Path(launch.SKIPPED_FILE), Path(launch.REFUSED_FILE)
        # A job that ends before the benchmark writes no record of its launch.
        if skipped.exists() and not Path(launch.FILE).exists():
            said = skipped.read_text(encoding="utf-8").strip()
            why = said.removeprefix("too-small: ")
            self.leave_out("not-here" if why == said else "too-small", True, why)
        if refused.exists():
            self._fail([refused.read_text(encoding="utf-8").strip()], SanityError)

    def _launch(self) -> tuple[list[str], store.Seconds]:
        """Problems of the launch, its duration and its start since the epoch [s]."""
        unknown, end = store.Seconds(began=0.0), getattr(self.job, "end", None)
        try:
            ended = launch.parse_launch(Path(launch.FILE).read_text(encoding="utf-8"))
        except OSError:
            if not Path(str(self.stdout)).exists():
                waited = self.max_pending_time
                limit = f"; its limit was {waited:.0f} s" if waited else ""
                return [f"its job never began{limit}"], unknown
            said = f"the job script did not reach its end: {end or 'killed, or out of time'}"
            return [f"{said}{self._last_words()}"], unknown
        except ValueError as torn:
            return [str(torn)], unknown
        times = store.Seconds(ended.end - ended.begin, ended.begin)
        self._launched = ended
        self.record.others = ended.others
        wrong = launch.wrong_clock(ended, self.job.submit_time, time.time())
        if ended.nonce != self._nonce:
            wrong.insert(0, f"{launch.FILE} is of another launch: its nonce is {ended.nonce!r}")
        if end and end.denies(ended.rc):
            wrong.insert(0, f"the job script says exit code {ended.rc}, {end}")
        if ended.rc == 0:
            return wrong, times
        signal = f" (signal {ended.signal})" if ended.signal else ""
        # The last words of a parallel launch come from the launcher.
        words = "" if self.parallel else self._last_words()
        printed = f"{text(self.stdout)}\n{text(self.stderr)}"
        needed = catalogue.needed(self._program())
        if needed and (option := launch.UNKNOWN_OPTION.search(printed)):
            words += f": {option[0].strip()!r}; {needed} is needed"
        said = f"{self._program()} ended with exit code {ended.rc}{signal}{words}"
        return [*wrong, said], times

    def _of_another_launch(self, parsed: Parsed | None) -> list[str]:
        """Evidence that the output or other files are not of this launch, one line each."""
        ended = self._launched
        if ended is None:
            return []
        written = [str(self.stdout), str(self.stderr), *map(str, self.keep_files)]
        problems = launch.stale(Path(), written)
        texts = [path for name in written[:1] + written[2:] for path in sorted(Path().glob(name))]
        said = "\n".join(map(text, texts))
        # The time zone in a container may be any.
        slack = 15 * 3600.0 if "image" in self.current_environ.extras else 0.0
        claimed = self.claimed(parsed) if parsed else 0.0
        return problems + launch.out_of_time(ended, claimed, said, slack)

    def _look_at_the_job(self) -> list[str]:
        """What steered the job script and was not requested, one line each."""
        try:
            self._node_after = node = steering.node(Path(steering.JOB).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            return [f"{steering.JOB} cannot be read: {error}"]
        if node.job.nonce != self._nonce:
            return [f"{steering.JOB} is of another launch"]
        asked, stack = self._requested_variables(), self.current_environ
        given = site.given_environment(site.environments(self.current_partition, stack))
        self._machine = machine = steering.machine(node, stack.extras, asked, given)
        owned, job = steering.settings(node, machine), dict(node.job.variables)
        self.record.settings = store.Settings(plan.digest(owned), owned, job)
        script = text(Path(str(self.job.script_filename)))
        return [
            *steering.unasked(steering.steering_of_job(node.job), asked, machine),
            *steering.hidden(node, script, given),
            *self._calibrated_otherwise(plan.digest(owned)),
        ]

    def _calibrated_otherwise(self, now: str) -> list[str]:
        """A doubt if the references are lost, or were measured under other settings."""
        references = site.site_references()
        before, _ = references.calibrated_under(self._keys())
        if self.purpose == "calibration":
            return []
        if not references.path.exists():  # without its bounds, less is judged
            return [plan.Doubt(f"there is no {references.path}: write it")]
        if before in ("", now):
            return []
        said = "the references of this case were calibrated under other settings of the machine "
        said += f"(sha256 {before[:12]}, now {now[:12]}): put back what changed below /etc, in the "
        return [plan.Doubt(f"{said}prefix of MPI or UCX, or in a module; or calibrate again")]

    def _health_of_nodes(self) -> tuple[list[str], Sequence[str]]:
        """Faults of the nodes during the launch, and those that other work may explain."""
        health = self.current_partition.extras.get("health", {})
        # The link witness reads the devices under test on each node.
        witnessed = links.READINGS in self.keep_files
        devices = self.partition_extra("network_device").split(",") if witnessed else ()
        problems, doubts, nodes = counters.counter_problems(Path(), health, devices)
        self.record.node_health = nodes
        unread = [f"{host}: {it['unread']}" for host, it in nodes.items() if "rose" not in it]
        # A run between nodes that came to its end must show what their ports counted.
        must = witnessed and self._launched is not None and self._launched.rc == 0
        return [*problems, *(unread if must else ())], doubts

    def _other_machine(self) -> Sequence[str]:
        """In what the nodes differ from the site's description, or from those of its references."""
        from assay.prove import identity  # noqa: PLC0415 - only a job that ran has nodes

        place, parts = self.current_partition, judge.hardware(site.site_directory())
        cpus = place.processor.num_cpus
        wrong, groups = identity.of_job(Path(), parts, place.extras, cpus)
        self.record.machine, now = tuple(groups), identity.kind_of_nodes(groups)
        _, before = site.site_references().calibrated_under(self._keys())
        if now and before not in ("", now) and self.purpose != "calibration":
            said = f"the references of this case were calibrated on {before}, these nodes"
            return [*wrong, plan.Doubt(f"{said} have {now}: calibrate again")]
        return wrong

    def _nodes_lost(self) -> list[str]:
        """Nodes of the job out of service now; for a job that never began, why it waited."""
        scheduler = self.current_partition.scheduler
        if hosts := self.job.nodelist:
            return node_state.lost(scheduler, hosts)
        wanted = -(-(self.num_tasks or 1) // (self.num_tasks_per_node or 1))
        return node_state.in_service(scheduler, self.job, wanted)[1]

    def _last_words(self) -> str:
        """The last line of standard error, formatted to follow the text of a problem."""
        said = reversed(text(self.stderr).split("\n"))  # none of a job that never began
        return next((f": {line.strip()}" for line in said if line.strip()), "")

    # What a launch is worth, with all launches of the case before it -----------------------------

    def _judge(self, parsed: Parsed) -> None:
        """Judges what was measured; the record says why a launch does not pass.

        :raises reframe.core.exceptions.PerformanceError: it does not pass.
        """
        if own := [name for name in self.perf_variables if name not in self.declares]:
            # ReFrame passes a run in which such a function raises an error.
            raise ReframeSyntaxError(f"metric {own[0]!r} does not come from measure()")
        if not self.declares:
            self._attempts.passed = True
            return
        try:
            measured, peaks = dict(self.measure(parsed)), dict(self.peaks(parsed))
            values, problems = outputs.in_declared_units(measured, self.declares)
        except (ValueError, ZeroDivisionError) as error:
            problems = [f"metrics cannot be read from the output of {parsed.program}: {error}"]
        if problems and self.record.busy:
            return  # the launch is left without a verdict
        if problems:
            self._fail(problems)
        from assay.judge import curves  # noqa: PLC0415 - only a launch with metrics has a shape

        self._newest = {name: statistics.median(of_launch) for name, of_launch in values.items()}
        self._unjudged = self.unjudged(parsed)
        origins, curve = formulas.origins(measured), self._judged_curve(parsed)
        try:
            judged = self.purpose != "calibration" and not self._emulated
            ratios = self._ratios(parsed, peaks, curve) if judged else {}
            if busy_with := self.record.busy or self._disturbance():
                metrics = self._judge_metrics(values, peaks, origins)
                if self._disturbed(metrics, ratios, busy_with):
                    return
            every = self._attempts.add(values, ratios, parsed.rows)
            metrics = self.record.metrics = self._judge_metrics(every, peaks, origins)
        except ReferencesError as error:
            self._fail(str(error).splitlines())
        self._decide(metrics, curves.best(self._attempts.rows, *curve) if curve and judged else {})

    def _decide(self, metrics: Sequence[store.Metric], best: Ratios) -> None:
        """The verdict over all launches of the case.

        :param best: the shape of a curve by the least times of all launches.
        :raises reframe.core.exceptions.PerformanceError: the case does not pass.
        """
        verdict = judge.worst(metric.verdict for metric in metrics)
        plausible = judge.judge_ratios(self._attempts.ratios, best)
        against: list[str] = []
        if plausible.verdict is not Verdict.PASS:
            verdict = judge.worst([verdict, plausible.verdict])
            against = [f"{plausible.verdict.value}: {plausible.why}"]
        elif verdict is Verdict.PASS and (few := self._too_few(metrics)):
            verdict = Verdict.INCONCLUSIVE
            against = [f"{verdict.value}: {few}"]
            # ReFrame passes this launch, so that tests that depend on the case run, too.
            self.record.again = self._attempts.launches <= (runner.retries() or 1)
        self._conclude(verdict, against)
        if verdict not in RED:
            # A case with `measures_anew` false may still add a verdict of its own.
            self._attempts.passed = self.measures_anew
        elif not self.record.again:
            red = (metric for metric in metrics if metric.verdict in RED)
            said = [f"{metric.name}: {metric.verdict.value}: {metric.why}" for metric in red]
            failure = PerformanceError(files.clean("; ".join([*said, *against])))
            decided = judge.decided(verdict, self._attempts.counted) or not self.measures_anew
            if decided or self._attempts.launches > runner.retries():
                self._attempts.failure = failure
            raise failure

    def _judged_curve(self, parsed: Parsed) -> tuple[str, curves.Once] | None:
        """The pattern by which rows are judged, and what a launch pays once; None for others."""
        from assay.judge import curves  # noqa: PLC0415

        if not curves.column(parsed.rows):
            return None
        library = self.current_environ.extras.get("mpi", "openmpi")
        # The site or the launch may say that ranks wait for a core.
        waits = mpi.OPEN_MPI.waits(self._requested_variables()) or self._others is not None
        pattern = self.record.curve = curves.judged_as(self.curve, waits, library)
        once = curves.paid_once(parsed.rows, self.counted)
        self.record.once = {str(size): paid for size, paid in once.items()}
        return pattern, once

    def _ratios(
        self, parsed: Parsed, peaks: Mapping[str, Peak], curve: tuple[str, curves.Once] | None
    ) -> Ratios:
        """What must be plausible in the last launch; a calibration judges all launches itself."""
        from assay.judge import curves  # noqa: PLC0415

        limited = {name: peak for name, peak in peaks.items() if peak.most is not None}
        rates = {n: p for n, p in limited.items() if known.fault(self.declares[n]) == "lower"}
        found = {
            f"peak {name}": of_peak(f"{name} is", self._newest[name], peak, self.declares[name])
            for name, peak in rates.items()
        }
        if parsed.rows and {"file_size", "record_size"} <= parsed.rows[0].keys():
            rates_of_a_table = self.declares.keys() & parsed.rows[0].keys()
            found.update(curves.cells(parsed.rows, sorted(rates_of_a_table)))
        column = curves.column(parsed.rows)
        if column and curve:
            alone = not runner.retries()
            if not alone:
                bounds = site.site_references().envelope(self._keys(), column, parsed.units[column])
                found.update(curves.outside(parsed.rows, bounds))
            links = (peak.value for name, peak in rates.items() if self.declares[name] == "MB/s")
            peak = max(links, default=None)
            if peak is None and column == "latency":
                peak = site.hardware_peak(self, "link", "bandwidth")
            pairs = max((self.num_tasks or 1) // 2, 1)
            found.update(curves.ratios(parsed.rows, *curve, peak, alone, pairs))
        return found

    def _too_few(self, metrics: Iterable[store.Metric]) -> str:
        """What a case lacks that has passed all its launches so far; empty if they are enough.

        The bounds of any machine are so wide that a second launch would tell nothing.
        """
        done = self._attempts.earlier + self._attempts.counted
        wide = {metric.yardstick for metric in metrics} <= {judge.ANY, None}
        least = max(self.least_launches, 1 if wide else judge.LAUNCHES_TO_PASS)
        return f"{done} of at least {least} launches" if self.measures_anew and done < least else ""

    def _judge_metrics(
        self,
        values: Mapping[str, list[float]],
        peaks: Mapping[str, Peak],
        origins: Mapping[str, Any],
    ) -> tuple[store.Metric, ...]:
        """Each metric as the record has it, with its verdict.

        :raises assay.judge.ReferencesError: a reference cannot be used; a line for each.
        """
        metrics, errors = [], []
        for name, unit in self.declares.items():
            try:
                metrics.append(self._judge_metric(name, unit, values[name], peaks.get(name)))
                metrics[-1].origin = origins.get(name)
            except ReferencesError as error:
                errors.append(str(error))
        if errors:
            self.record.metrics = tuple(metrics)
            raise ReferencesError("\n".join(errors))
        return tuple(metrics)

    def _judge_metric(
        self, name: str, unit: str, values: list[float], peak: Peak | None
    ) -> store.Metric:
        middle = statistics.median(values)  # the value that `judge` reports
        self.perf_variables[name] = sn.make_performance_function(sn.defer(middle), unit)
        found = store.Metric(name, middle, unit, Verdict.RECORDED, store.CALIBRATION, tuple(values))
        if peak:
            share, value = 100 * middle / float(peak.value), float(peak.value)
            found.percent_of = store.OfPeak(peak.what, value, unit, share, peak.of)
        if self.purpose == "calibration":
            return found
        if why := store.OF_SOFTWARE if self._emulated else self._unjudged.get(name):
            found.why = f"{store.NO_MEASUREMENT}{why}"
            return found
        named = self.current_partition.extras.get("hardware", {})
        expected = site.site_references().find(self._keys(), name, unit, peak, named)
        judgement = judge.judge(values, expected)
        found.verdict, found.why = judgement.verdict, judgement.why
        if (by := judgement.by) is None:
            return found
        found.reference, found.source, found.yardstick = by.value, by.source, by.yardstick
        found.lower, found.upper = judgement.bounds
        # ReFrame shows and stores this reference. The reference has no bounds: ReFrame would judge
        # the median by them, and it has no third verdict.
        where = self.current_partition.fullname
        self.reference[f"{where}:{name}"] = (by.value, None, None, unit)
        return found

    def _disturbed(self, metrics: tuple[store.Metric, ...], ratios: Ratios, why: str) -> bool:
        """Whether a launch does not count: there was other work, and a metric is out of bounds.

        :raises reframe.core.exceptions.PerformanceError: it does not, and it is not good.
        """
        bad = [metric for metric in metrics if metric.verdict in RED]
        plausible = judge.judge_ratios([ratios])
        said = [f"{metric.name}: {metric.why}" for metric in bad]
        if plausible.verdict is not Verdict.PASS:
            said.append(plausible.why)
        if self.record.busy:  # phase sanity has left the numbers without a verdict
            bad = [*metrics]
        elif not said or (self._of_a_person and outputs.too_good(metrics, self.declares, ratios)):
            return False
        else:
            self._undecided(why, said)
        verdict, problems = self.record.verdict or Verdict.FAIL, self.record.problems
        for metric in bad:
            metric.verdict, metric.why = verdict, f"{why}: {metric.why}"
        self.record.metrics = metrics
        self._conclude(verdict, problems, said)
        if verdict in RED:
            raise PerformanceError(files.clean("; ".join(problems)))
        return True

    def _undecided(self, why: str, against: Sequence[str], busy: bool = True) -> str:
        """Closes the record of a launch that does not count.

        :param busy: the machine was busy; `why` is what other work took.
        :returns: the reason for the failure of the case. It is empty on the machine of a person,
            where the last such launch ends the case without a verdict.
        """
        case = self._attempts  # whose `disturbed` are the launches before this one
        most = min(judge.LAUNCHES_TO_FAIL, runner.retries() + 1)
        enough = case.disturbed + 1 >= most or case.launches > runner.retries()
        last = enough or not self.measures_anew
        self._attempts.disturb()
        if busy:
            self.record.busy = why
        if busy and last and self._of_a_person:
            self.record.not_judged = tuple(map(str, against))
            self._conclude(Verdict.RECORDED, [])
            self._attempts.passed = self.measures_anew
            return ""
        said = files.clean("; ".join([f"{store.BUSY}: {why}" if busy else why, *against]))
        self._conclude(Verdict.INCONCLUSIVE, [said], against)
        if last:
            self._attempts.failure = PerformanceError(said)
        return said

    # Phase performance ---------------------------------------------------------------------------

    @run_after("performance")
    def _no_pass_without_verdict(self) -> None:
        """Fails a case that has not passed, after ReFrame has stored its values."""
        if self._failure:
            raise self._failure

    def value(self, metric: str) -> float:
        """A metric of this case in its last launch, for a test that depends on this case.

        :raises KeyError: there is no such metric.
        """
        where = f"{self.current_partition.fullname}+{self.current_environ.name}"
        value = float(self._newest[metric])
        return formulas.Number(value, ["metric", self.unique_name, where, metric, value])

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of this case in its last launch, for a test that depends on this case."""
        return self._parsed.rows if self._parsed else ()

    # The end of a case ---------------------------------------------------------------------------

    def _conclude(
        self, verdict: Verdict | None, problems: Sequence[str], against: Sequence[str] | None = None
    ) -> None:
        """Enters the verdict; `against` are the lines that `problems` was put together from."""
        self.record.verdict, self.record.problems = verdict, tuple(problems)
        self.record.accused = accused.accusations(problems if against is None else against)

    def _write_record(self) -> None:
        files.write_file(Path(self.stagedir) / store.FILE, f"{store.as_text(self.record)}\n")

    def _refuse(self, problems: Sequence[str], kind: Any = SanityError) -> NoReturn:
        """Fails for good: another attempt would find the same."""
        failure = kind(files.clean("; ".join(problems)))
        self._attempts.failure = failure
        raise failure

    def _fail(self, problems: list[str], kind: Any = PerformanceError) -> NoReturn:
        self._conclude(Verdict.FAIL, problems)
        self._refuse(problems, kind)

    # Facts of the case and of its place ----------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """The test and its parameters, independent of where it runs."""
        found = {name: getattr(self, name) for name in testcase.parameters(type(self))}
        # A reference names a parameter of several words as one text: `sendrecv:default`.
        words = {k: ":".join(map(str, v)) if isinstance(v, tuple) else v for k, v in found.items()}
        return {"test": type(self).__name__.split("_")[0], **words}

    def _keys(self) -> dict[str, Any]:
        """The keys by which the site's references are looked up."""
        return {
            "system": self.current_system.name, "partition": self.current_partition.name,
            "environ": self.current_environ.name, "profile": self.profile, **self.identity(),
        }  # fmt: skip

    def stdout_text(self) -> str:
        """Standard output of the job; any bytes are accepted. Runs in the stage directory."""
        return Path(str(self.stdout)).read_text(encoding="utf-8", errors="replace")

    def leave_out(self, kind: str, condition: object, why: str) -> None:
        """Skips the case if the condition holds.

        :param kind: one of :data:`assay.store.promise.KINDS`, by which sites allow skips.
        """
        self.skip_if(condition, files.clean(f"{kind}: {why}"))

    def _undescribed(self, condition: object, what: str) -> None:
        """Skips the case if the site does not say what it needs to know; the reason names it."""
        name = self.current_partition.name
        self.leave_out("undescribed", condition, f"partition {name!r}: {what}")

    def partition_extra(self, name: str) -> Any:
        """An extra of the partition; without it the case is skipped."""
        extras = self.current_partition.extras
        self._undescribed(name not in extras, f"extras: {type(self).__name__} needs {name!r}")
        return extras[name]

    def stack_extra(self, name: str) -> Any:
        """An extra of the stack; without it the case is skipped."""
        stack = self.current_environ
        why = f"the stack {stack.name}: extras: {type(self).__name__} needs {name!r}"
        self.leave_out("undescribed", name not in stack.extras, why)
        return stack.extras[name]

    @property
    def between(self) -> Between | None:
        """The link between two groups of nodes that the partition is; None if it is none.

        :raises reframe.core.exceptions.ConfigError: the site does not describe it, or wrongly.
        """
        if "across" not in self.current_partition.features:
            return None
        from assay.prove import groups  # noqa: PLC0415 - few partitions are between groups

        try:
            return groups.parse_groups(self.partition_extra("between"))
        except ValueError as error:
            raise site.misdescribed(self.current_partition, f"extras: between: {error}") from None

    def _cores_of_a_node(self) -> int:
        """How many cores a node of the partition has; the case is skipped if nothing says it."""
        its = self.current_partition.processor
        why = "processor: num_cpus is missing; the number of ranks follows from it"
        self._undescribed(not its.num_cpus, why)
        return int(min(its.num_cores or its.num_cpus, its.num_cpus))

    @property
    def _emulated(self) -> bool:
        """Whether the test is of GPUs, and software stands for those of the partition."""
        of_gpus = any("+gpu" in words.split() for words in self.valid_systems)
        return of_gpus and any(d.arch == store.EMULATED for d in self.current_partition.devices)

    def _launch_words(self) -> str:
        """The command by which the launcher starts the ranks."""
        job = self.job
        job.num_tasks, job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        job.num_cpus_per_task = self.num_cpus_per_task
        return " ".join(map(str, job.launcher.command(job)))

    @property
    def _starter(self) -> str:
        """The program by which the launcher starts ranks, see :func:`job_request.starter`."""
        return job_request.starter(self.job.launcher, self._launch_words())

    def _program(self) -> str:
        return Path(str(self.executable)).name

    def _requested_variables(self) -> dict[str, str]:
        """The environment variables that partition, stack and test set for a launch."""
        places = (self.current_partition.local_env, self.current_environ, self)
        return {name: str(value) for of in places for name, value in of.env_vars.items()}

    @property
    def _of_modules(self) -> bool:
        """Whether the programs come from modules of the site, and from no lock or image."""
        partition, stack = self.current_partition, self.current_environ
        fixed = "image" in stack.extras or "sha256" in stack.extras.get("provenance", "")
        loaded = any(each.modules for each in site.environments(partition, stack))
        return not fixed and bool(loaded or partition.prepare_cmds or stack.prepare_cmds)

    def _foreign(
        self, libraries: Collection[str], node: steering.Node, ranks: Sequence[steering.Steering]
    ) -> list[str]:
        """Libraries of MPI and UCX that are not of this stack, one line each."""
        own = steering.own_libraries(self.current_environ.extras, self._requested_variables())
        if not self._of_modules:
            return steering.foreign(libraries, node.programs, own)
        own += self._machine.variables.get(steering.SEARCHED, "").split(":")
        directories = steering.searched([node.job, *ranks])
        return steering.foreign(libraries, node.programs, filter(None, own), directories)

    @property
    def _others(self) -> Any:
        """The extra ``others``: which processor time is ours, see :mod:`assay.prove.busy`."""
        return self.current_partition.extras.get("others")

    @property
    def _of_a_person(self) -> bool:
        """Whether the machine is that of a person. There, other work does not make a run red."""
        return bool(self._others == busy.PROCESSES)

    def _disturbance(self) -> str:
        """What other work took during the last launch; empty if it took little, or is no excuse."""
        launches = [check._launched for check in (self, *testcase.compared(self))]
        known = [launch.others for launch in launches if launch and launch.others]
        if self._others is None or not known:
            return ""
        most = max(known, key=lambda others: others.processors)
        much = most.processors > busy.limit(site.site_directory())
        return f"other work took {most}" if much else ""
