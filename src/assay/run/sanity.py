"""Phase ``sanity``: whether the run can be believed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reframe.core.builtins import sanity_function
from reframe.core.exceptions import ReframeSyntaxError, SanityError

from assay.judge import Verdict
from assay.parse import Parsed, ParseError
from assay.prove import counters, launch, links, node_state, plan, steering
from assay.reframe_compat import testcase
from assay.run.case import CaseBase
from assay.run.site import site_references
from assay.run.ucx import text
from assay.store import record

#: How many problems the failure message of ReFrame names; the record has all of them.
NAMED_PROBLEMS = 4


def not_as_requested(parsed: Parsed, requested: Mapping[str, Any]) -> list[str]:
    """What an output reports otherwise than it was requested, one line each.

    :param requested: see :meth:`assay.run.strict.StrictCheck.requested`.
    """
    facts = {"program": parsed.program, **parsed.facts}
    found = []
    for key, wanted in requested.items():
        if key == "sizes":
            sizes = parsed.column("size") if parsed.rows else []
            if sizes != list(wanted):
                found.append(f"sizes were {_listed(sizes)}, {_listed(wanted)} were asked for")
        elif key in facts or key not in parsed.units:
            if facts.get(key) != wanted:
                what = key.replace("_", " ")
                found.append(f"the {what} was {facts.get(key)}, {wanted} was asked for")
        elif other := {*parsed.column(key)} - {wanted}:
            found.append(f"{min(other, key=str)} {key} were run, {wanted} were asked for")
    return found


def _listed(sizes: Sequence[Any]) -> str:
    return f"{len(sizes)} from {sizes[0]} to {sizes[-1]} B" if sizes else "none"


class Believed(CaseBase):
    """The part of :class:`assay.run.strict.StrictCheck` that demands evidence of a launch."""

    #: The record of the launch by its job script; None if the script did not reach its end.
    _launched: launch.Launch | None = None

    #: What the job script found on its node after the benchmark; None if it did not look.
    _node_after: steering.Node | None = None

    @classmethod
    def __init_subclass__(cls, **options: Any) -> None:
        """Refuses a class whose tests would pass without this evidence."""
        super().__init_subclass__(**options)
        if name := testcase.other_sanity(cls, Believed):
            raise ReframeSyntaxError(
                f"{cls.__qualname__}: @sanity_function {name}() would replace Assay's evidence: "
                "take it out, and write read() in its place, see docs/my-benchmark.md"
            )

    @sanity_function
    def _evidence(self) -> bool:
        """Fails and names the cause, unless the run can be believed."""
        testcase.hide_values(self)
        self._record = record.begin(self, self._keys(), self._hosts, self._attempts.launches)
        self._end_if_not_begun()
        problems, seconds = self._launch()
        of_job = self._look_at_the_job() if self._launched and self.kind != "node" else []
        parsed, rounded = None, []
        try:
            parsed = self.read()
        except ParseError as error:
            problems.append(f"{self._program()}: {error}")
        except OSError as error:
            problems.append(f"{self._program()} left no {error.filename} ({error.strerror})")
        else:
            of, exact = parsed.program, [p for p in parsed.problems if p not in parsed.rounded]
            problems += [f"{of}: {problem}" for problem in exact]
            rounded = [f"{of}: {problem}" for problem in parsed.rounded]
            if not parsed.complete:
                problems.append(f"{of}: the output is incomplete: it stops half-way")
        problems += not_as_requested(parsed, self.requested()) if parsed else []
        problems += self._of_another_launch(parsed) + of_job
        problems += self.examine(parsed)
        problems, doubts, notes = plan.sorted_out(problems)
        self._record.update(doubts=doubts, notes=notes)
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
        self._parsed = parsed
        self._record.update(record.of_output(parsed), seconds=seconds)
        if missed or busy_with:
            if said := self._undecided(missed or busy_with, moved, busy=not missed):
                raise SanityError(said)
            return True
        # A case with metrics has no verdict until they are judged.
        believed = None if self.declares else Verdict.RECORDED
        self._close_record(Verdict.FAIL if problems else believed, problems)
        if problems:
            more = len(problems) - NAMED_PROBLEMS
            rest = [f"{more} more in {record.FILE}"] if more > 0 else []
            self._refuse(problems[:NAMED_PROBLEMS] + rest)
        return True

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
        asked, given = self._requested_variables(), self._given()
        extras = self.current_environ.extras
        self._machine = machine = steering.machine(node, extras, asked, given)
        owned, job = steering.settings(node, machine), dict(node.job.variables)
        self._record["settings"] = {"sha256": plan.digest(owned), "machine": owned, "job": job}
        script = text(Path(str(self.job.script_filename)))
        return [
            *steering.unasked(steering.of_job(node.job), asked, machine),
            *steering.hidden(node, script, given),
            *self._calibrated_otherwise(plan.digest(owned)),
        ]

    def _calibrated_otherwise(self, now: str) -> list[str]:
        """A doubt if the references are lost, or were measured under other settings."""
        references = site_references()
        before = references.calibrated_under(self._keys())
        if self.purpose == "calibration":
            return []
        if not references.path.exists():  # without its bounds, less is judged
            return [plan.Doubt(f"there is no {references.path}: write it")]
        if before in ("", now):
            return []
        said = "the references of this case were calibrated under other settings of the machine "
        said += f"(sha256 {before[:12]}, now {now[:12]}): put back what changed below /etc, in the "
        return [plan.Doubt(f"{said}prefix of MPI or UCX, or in a module; or calibrate again")]

    def _end_if_not_begun(self) -> None:
        """Skips or fails the case if the job itself found that the benchmark could not run."""
        skipped, refused = Path(launch.SKIPPED_FILE), Path(launch.REFUSED_FILE)
        # A job that ends before the benchmark writes no record of its launch.
        if skipped.exists() and not Path(launch.FILE).exists():
            self.leave_out("not-here", True, skipped.read_text(encoding="utf-8").strip())
        if refused.exists():
            problems = [refused.read_text(encoding="utf-8").strip()]
            self._close_record(Verdict.FAIL, problems)
            self._refuse(problems)

    def _health_of_nodes(self) -> tuple[list[str], Sequence[str]]:
        """Faults of the nodes during the launch, and those that other work may explain."""
        health = self.current_partition.extras.get("health", {})
        # The link witness reads the devices under test on each node.
        witnessed = links.READINGS in self.keep_files
        devices = self.partition_extra("network_device").split(",") if witnessed else ()
        problems, doubts, nodes = counters.of_job(Path(), health, devices)
        self._record["node_health"] = nodes
        unread = [f"{host}: {it['unread']}" for host, it in nodes.items() if "rose" not in it]
        # A run between nodes that came to its end must show what their ports counted.
        must = witnessed and self._launched is not None and self._launched.rc == 0
        return [*problems, *(unread if must else ())], doubts

    def _program(self) -> str:
        return Path(str(self.executable)).name

    def _launch(self) -> tuple[list[str], dict[str, float]]:
        """Problems of the launch, its duration and its start since the epoch [s]."""
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
        times = {"benchmark": ended.end - ended.begin, "began": ended.begin}
        self._launched = ended
        if ended.others is not None:
            self._record["others"] = asdict(ended.others)
        wrong = launch.wrong_clock(ended, self.job.submit_time, time.time())
        if ended.nonce != self._nonce:
            wrong.insert(0, f"{launch.FILE} is of another launch: its nonce is {ended.nonce!r}")
        if ended.rc == 0:
            return wrong, times
        signal = f" (signal {ended.signal})" if ended.signal else ""
        # The last words of a parallel launch come from the launcher.
        words = "" if self.parallel else self._last_words()
        said = f"{self._program()} ended with exit code {ended.rc}{signal}{words}"
        return [said, *wrong], times

    def _nodes_lost(self) -> list[str]:
        """Nodes of the job out of service now; for a job that never began, why it waited."""
        scheduler = self.current_partition.scheduler
        if self._hosts:
            return node_state.lost(scheduler, self._hosts)
        wanted = -(-(self.num_tasks or 1) // (self.num_tasks_per_node or 1))
        return node_state.in_service(scheduler, self.job, wanted)[1]

    def _last_words(self) -> str:
        """The last line of standard error, formatted to follow the text of a problem."""
        said = reversed(text(self.stderr).split("\n"))  # none of a job that never began
        return next((f": {line.strip()}" for line in said if line.strip()), "")
