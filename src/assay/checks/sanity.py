"""Phase ``sanity``: whether the run can be believed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from reframe.core.builtins import sanity_function
from reframe.core.exceptions import SanityError

from assay.checks import shared
from assay.checks.case import CaseBase
from assay.evidence import busy, launch, node_state
from assay.judge import Verdict
from assay.outputs import Parsed, ParseError
from assay.results import record

#: How many problems the failure message of ReFrame names; the record has all of them.
NAMED_PROBLEMS = 4


class Believed(CaseBase):
    """The part of :class:`assay.checks.strict.StrictCheck` that demands evidence of a launch."""

    #: What other work took of the machine during the last launch; None if unknown or not asked for.
    others: busy.Others | None = None

    @sanity_function
    def evidence(self) -> bool:
        """Fails and names the cause, unless the run can be believed."""
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
        problems += self._not_as_requested(parsed) + self.examine(parsed)
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
        # A case with metrics has no verdict until they are judged.
        believed = None if self.declares else Verdict.RECORDED
        self._close_record(Verdict.FAIL if problems else believed, problems)
        if problems:
            more = len(problems) - NAMED_PROBLEMS
            named = problems[:NAMED_PROBLEMS] + (
                [f"{more} more in {record.FILE}"] if more > 0 else []
            )
            failure = SanityError("; ".join(named))
            self._attempts.settle(failure)
            raise failure
        return True

    def _not_as_requested(self, parsed: Parsed | None) -> list[str]:
        if parsed is None:
            return []
        said = {"program": parsed.program, **parsed.facts}
        return [
            f"the {key.replace('_', ' ')} was {said.get(key)}, {wanted} was asked for"
            for key, wanted in self.requested().items()
            if said.get(key) != wanted
        ]

    def _end_if_not_begun(self) -> None:
        """Skips or fails the case if the job itself found that the benchmark could not run."""
        skipped, refused = Path(launch.SKIPPED_FILE), Path(launch.REFUSED_FILE)
        # A job that ends before the benchmark writes no record of its launch.
        if skipped.exists() and not Path(launch.FILE).exists():
            self.skip(skipped.read_text(encoding="utf-8").strip())
        if refused.exists():
            problems = [refused.read_text(encoding="utf-8").strip()]
            self._close_record(Verdict.FAIL, problems)
            self._refuse(problems)

    def _program(self) -> str:
        return Path(str(self.executable)).name

    def _launch(self) -> tuple[list[str], dict[str, float]]:
        """Problems of the launch, and its times from :func:`assay.evidence.launch.times`."""
        unknown = {"benchmark": 0.0, "began": 0.0}
        try:
            ended = launch.parse(Path(launch.FILE).read_text(encoding="utf-8"))
        except OSError:
            if not Path(str(self.stdout)).exists():
                waited = self.max_pending_time
                limit = f"; its limit was {waited:.0f} s" if waited else ""
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
        # The last words of a parallel launch come from the launcher.
        words = "" if self.parallel else self._last_words()
        return [f"{self._program()} ended with exit code {ended.rc}{signal}{words}"], times

    def _nodes_lost(self) -> list[str]:
        """Nodes of the job out of service now; for a job that never began, why it waited."""
        scheduler = self.current_partition.scheduler
        if self.hosts:
            return node_state.lost(scheduler, self.hosts)
        wanted = -(-(self.num_tasks or 1) // (self.num_tasks_per_node or 1))
        return node_state.in_service(scheduler, self.job, wanted)[1]

    def _last_words(self) -> str:
        """The last line of standard error, formatted to follow the text of a problem."""
        try:
            said = reversed(self.stderr_text().split("\n"))
        except OSError:  # a job that never began
            return ""
        return next((f": {line.strip()}" for line in said if line.strip()), "")
