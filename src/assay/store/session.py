"""A finished session: ReFrame's run report joined with the evidence record of each test case.

ReFrame 4.10 writes the run report (``results/reports/run-report-N.json``; the source is
``reframe/frontend/reporting/__init__.py``, ``RunReport.update_run_stats``). The run report lists
the test cases and how each ended. The measured values and the evidence for them are in the record
``assay.json``, which each test leaves in its directory. A test case that passed in ReFrame without
such a record has proven nothing and is a FAIL here. The plan of the session
(:mod:`assay.store.run_folder`) lists the cases that the session was to run. Cases that it did not
finish neither passed nor failed, and they make the session red.
"""

from __future__ import annotations

import builtins
import json
import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assay import files
from assay.deadline import REACHED
from assay.judge import GREEN, RED, Verdict
from assay.reframe_compat import log, testcase
from assay.store import promise, run_folder, unmeasured
from assay.store.cases import Case, Session, cause, figures, grouped, with_record
from assay.store.record import BROKEN, SCHEMA
from assay.store.record import FILE as RECORD
from assay.store.sanitize import finite, line, mapping, reframe_date, sequence

#: Results that ReFrame gives a test case that never started (``RegressionTask.result``).
NOT_RUN = {"skip": "no reason was recorded", "fail_deps": "a test that it depends on failed"}

#: What is read of an entry of the run report.
KEYS = (
    *("name", "display_name", "unique_name", "hashcode", "system", "partition", "environ"),
    *("kind", "transport", "figures", "fixture", "purpose", "result", "fail_phase", "fail_reason"),
    *("fail_info", "outputdir", "stagedir", "job_stdout", "job_stderr"),
)

#: Files of a case that a reader may want to open.
TEXT_SUFFIXES = (
    *(".dat", ".data", ".err", ".json", ".launch", ".lock", ".log", ".out", ".sh", ".txt"),
    ".yaml",
)

#: A frame of a traceback, and files of which the test of a frame is none.
_FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')
_LIBRARY = re.compile(r"/lib/python3|/src/assay/|^<")

#: Why a run without a plan is only a part.
NO_PROMISE = "nothing says which cases must run: no site of Assay planned the run"

#: How much older than its session a record may be [s]. An even older record counts as left over
#: from another session. The clocks of a file server and of this machine differ.
CLOCK_SKEW_SECONDS = 60


class ReportError(Exception):
    """A request that cannot be fulfilled; the message is one line with the file and the remedy."""


class NoAnswer(ReportError):
    """The last run has no result: it goes on, or it did not start."""


def results() -> Path:
    """What commands read if no run is named: ``$ASSAY_RESULTS``, by default ``results/``."""
    return Path(os.environ.get("ASSAY_RESULTS") or "results")


def newest(results: Path) -> Path:
    """The run report of the last run, or its folder if it was killed and wrote no report.

    :raises NoAnswer: the last run goes on, or it did not start. An older run is no answer.
    :raises ReportError: there is no run report.
    """
    reports = run_folder.run_reports(results / "reports")
    if who := run_folder.holder(results):
        raise NoAnswer(f"{results}: {who}, has not ended: wait for its end")
    if last := run_folder.current(results):
        said, folder = last
        if folder and run_folder.read_plan(folder):
            return run_folder.run_report(folder) or folder
        older = ""
        for path in reports[-1:]:
            older = f"; for the run before it, type: assay report --session {path}"
        raise NoAnswer(
            f"{results}: the last run ({said}) did not start: no case ran, and the output of "
            f"reframe or make says why{older}"
        )
    if not reports:
        raise ReportError(
            f"{results / 'reports'}: no run-report-*.json here: no test was selected, or nothing "
            "has run yet; run the acceptance first, or name a run report with --session FILE"
        )
    return reports[-1]


def load_session(file: Path, sealed: bool = False) -> Session:
    """Read a run report and the records of its test cases.

    `file` may also be the folder of a session, ``output/TIME`` of the results. If its run report is
    lost (ReFrame was killed, the disk was full), the finished cases are read from that folder.

    A missing or unreadable record is not an error here. Its case reports the fault.

    :param sealed: read only files below the results directory that `file` is in, although the run
        report may name others that exist.
    :raises ReportError: the run report itself is missing, not JSON, or not of ReFrame's shape.
    """
    if file.is_dir():
        found = run_folder.run_report(file.resolve())
        if found is None:
            return _salvaged(file)
        file = found
    try:
        report = files.read_json(file)
        info = report["session_info"]
        # Their values and other settings are in the records.
        every = (entry for run in report["runs"] for entry in run["testcases"])
        entries = [{key: entry[key] for key in KEYS if key in entry} for entry in every]
        elapsed = float(info["time_elapsed"])
        if not isinstance(info, dict) or not math.isfinite(elapsed):
            raise TypeError
        if len(entries) > run_folder.MOST_CASES:
            raise OverflowError
    except OSError as error:
        raise ReportError(
            f"{file}: {error.strerror}; name a readable run report with --session FILE"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        at = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        mend = "run the acceptance again, or name another run report with --session FILE"
        for folder in sorted((file.resolve().parents[1] / "output").glob("*")):
            mend = f"what its finished cases measured is there: assay report --session {folder}"
        said = f"{file}: not JSON{at}, perhaps cut short (a full disk?)"
        raise ReportError(f"{said}; {mend}") from None
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise ReportError(
            f"{file}: not a run report of ReFrame (session_info, runs and testcases are expected); "
            "name another with --session FILE"
        ) from None
    reader = _Reader(file, info, sealed)
    ended, others = [], {}
    for entry in entries:
        if entry.get("fixture") is True and entry.get("result") == "pass":
            continue  # a fixture that failed is a failed case
        case = case_named(entry)
        if reader.foreign(case, entry):
            end = filter(None, (line(entry.get("result")), _reason(entry)))
            others[case.unique_name, case.where] = replace(case, why=": ".join(end))
        else:
            ended.append(reader.case(case, entry))
    folder = file.resolve().parents[1] / "output" / Path(str(info.get("prefix_output"))).name
    return reader.session(file, folder, ended, elapsed=elapsed, others=tuple(others.values()))


def _salvaged(folder: Path) -> Session:
    """A session from the records of its finished cases, in the output directory and the stage.

    :raises ReportError: there are no records, and no plan lists any cases.
    """
    plan = run_folder.read_plan(folder) or run_folder.NO_PLAN
    info = {"hostname": plan.host, "time_start": plan.started, "cmdline": " ".join(plan.command)}
    info["prefix_output"] = str(folder.resolve())
    reader = _Reader(folder.resolve() / "report", info)
    staged = folder.resolve().parent.parent / "stage" / folder.resolve().name
    found: dict[Path, tuple[int, str, dict[str, Any]]] = {}
    for where in (folder, staged):
        for path in where.rglob(RECORD):
            inside = path.relative_to(where)
            if inside in found:
                continue  # a case that failed has its outputs in both
            try:
                record = files.read_json(path)
                entry = {key: record[key] for key in ("system", "partition", "environ")}
                entry |= {key: record[key] for key in ("display_name", "unique_name")}
                verdict = record.get("verdict")
            except (OSError, ValueError, LookupError, TypeError):
                entry, verdict = {"display_name": path.parent.name}, None
            ended_as = "fail" if verdict in RED else "pass"
            # A case that passed may be in the stage, for a case that depends on it.
            if where is staged and ended_as == "pass" and not reader.passed(entry):
                continue  # it had not ended
            entry |= dict.fromkeys(("outputdir", "stagedir"), str(path.parent))
            entry["result"] = ended_as
            retry = re.search(r"_retry(\d+)$", path.parent.name)
            found[inside] = (int(retry[1]) if retry else 0, str(path), entry)
    in_order = sorted(found.values(), key=lambda each: each[:2])
    ended = [reader.case(case_named(entry), entry) for _, _, entry in in_order]
    run = reader.session(folder, folder.resolve(), ended, elapsed=0.0, salvaged=True)
    if not run.attempts:
        raise ReportError(
            f"{folder}: no {RECORD} below it; name a run report, or a folder output/TIME of the "
            "results, with --session FILE"
        )
    return run


def last_attempts(attempts: Iterable[Case]) -> tuple[Case, ...]:
    """One case for all its attempts (ReFrame's ``--max-retries``, ``--reruns``).

    The last attempt counts. If it follows a failed attempt, it passes only if its record says that
    all launches were judged together. An acceptance must find tests that fail now and then.
    """
    cases = []
    for every in grouped(((case.name, case.where), case) for case in attempts).values():
        # ReFrame continues the retries of a settled case, but nothing is launched for them.
        launched = [case for case in every if case.launched] or every
        # An attempt that was not run does not revoke the attempts that were run.
        tries = [case for case in launched if case.verdict is not None] or launched
        last = tries[-1]
        red = [case.verdict in RED and not case.again for case in tries]
        failed = [n for n, bad in enumerate(red, 1) if bad]
        if failed and last.verdict in GREEN and last.launches != len(tries):
            cause = tries[failed[0] - 1].why
            why = f"failed in attempt {failed[0]} of {len(tries)} ({cause}), then passed"
            last = replace(last, verdict=Verdict.INCONCLUSIVE, why=why)
        if len(tries) > 1:
            seconds = sum(case.seconds.benchmark for case in tries)
            last = replace(last, seconds=replace(last.seconds, benchmark=seconds))
        cases.append(last)
    return tuple(cases)


class _Reader:
    """Reads the test cases of one run report; `info` is its ``session_info``."""

    def __init__(self, file: Path, info: Mapping[str, Any], sealed: bool = False) -> None:
        self._info, self._sealed = info, sealed
        self._start = finite(info.get("time_start_unix"))
        prefixes = [str(info.get(f"prefix_{kind}") or "") for kind in ("output", "stage")]
        self._root_then = os.path.commonpath(prefixes) if all(map(os.path.isabs, prefixes)) else ""
        # reports/ lies in the results directory.
        self._root_now = file.resolve().parent.parent
        folders = self._now(info.get("prefix_output"))
        logs = [path for named in sequence(info.get("log_files")) for path in self._now(named)]
        logs += [folder / run_folder.LOG for folder in folders]
        self.plan = next(filter(None, map(run_folder.read_plan, folders)), run_folder.NO_PLAN)
        planned = map(case_named, self.plan.cases)
        self._planned = {(case.unique_name, case.where): case for case in planned}
        foreign = (case_named(entry) for entry in self.plan.cases if entry.get("foreign") is True)
        self._foreign = {(case.unique_name, case.where) for case in foreign}
        self.log = next(filter(None, map(log.read_reframe_log, logs)), log.Log())

    def foreign(self, case: Case, entry: dict[str, Any]) -> bool:
        """Whether a case is of a test that is not of Assay. If there is a plan, it must say so."""
        said = not self.plan.cases or (case.unique_name, case.where) in self._foreign
        return said and not testcase.of_assay(entry)

    def case(self, bare: Case, entry: Mapping[str, Any]) -> Case:
        """One entry of ``testcases``, with its record."""
        result = line(entry.get("result"))
        # ReFrame 4.10.4 leaves out some of the cases that it aborts together.
        result = "abort" if result == "<unknown>" and self.log.stopped else result
        bare.figures = self._planned.get((bare.unique_name, bare.where), bare).figures
        bare.aborted, bare.dependency_failed = result == "abort", result == "fail_deps"
        bare.launched = entry.get("fail_phase") != "setup"
        bare.kind, bare.transport = line(entry.get("kind")), line(entry.get("transport"))
        directory = self._directory(entry)
        if result in NOT_RUN:
            logged = self.log.skipped.get((line(entry.get("hashcode")), bare.where))
            why = line(logged) if logged and result == "skip" else NOT_RUN[result]
            return replace(bare, why=why)
        bare.outputs = _outputs(directory, entry)
        if result == "abort":
            why = line(self.log.stopped) or _reason(entry) or "aborted before it was done"
            return replace(bare, why=why)
        record, lack = self._record(directory, entry)
        case = with_record(bare, record)
        if result == "pass":
            if lack := lack or _lack(case, record):
                return replace(case, verdict=Verdict.FAIL, why=f"no evidence: {lack}")
            return case
        if result == "fail":
            # A test that needs more launches to decide fails in ReFrame, which has no third state.
            verdict = case.verdict if case.verdict in RED else Verdict.FAIL
            why, info = cause(case, verdict), mapping(entry.get("fail_info"))
            error = line(info.get("exc_type")), info.get("exc_value")
            if not why and (why := broken(*error, sequence(info.get("traceback")))):
                verdict = Verdict.INCONCLUSIVE
            why = why or _reason(entry) or "ReFrame gives no reason"
            return replace(case, verdict=verdict, why=why)
        why = f"ended as {result!r}, which is neither pass nor fail"
        return replace(case, verdict=Verdict.FAIL, why=why)

    def _directory(self, entry: Mapping[str, Any]) -> Path | None:
        """The directory of the outputs, which is the one that holds the record.

        ReFrame moves the outputs from the stage to the output directory when a test passed, but not
        if a test that depends on it failed.
        """
        order = ("outputdir", "stagedir")[:: 1 if entry.get("result") == "pass" else -1]
        there = None
        for place in (place for key in order for place in self._now(entry.get(key))):
            if os.path.isfile(place / RECORD):  # noqa: PTH113 - any text
                return place
            if there is None and os.path.isdir(place):  # noqa: PTH112
                there = place
        return there

    def _record(
        self, directory: Path | None, entry: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], str]:
        """The record of a case, and why it is not one of this case ("" if it is one)."""
        if directory is None:
            return {}, "its output directory is gone"
        path = directory / RECORD
        try:
            age = path.stat().st_mtime
            record = files.read_json(path, clean_texts=True)
        except FileNotFoundError:
            return {}, f"the test left no {RECORD}"
        except OSError as error:
            return {}, f"{RECORD} cannot be read: {error.strerror}"
        except ValueError:
            return {}, f"{RECORD} is not JSON"
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            return {}, f"{RECORD} is not a record of schema {SCHEMA}"
        if self._start is not None and age < self._start - CLOCK_SKEW_SECONDS:
            return {}, f"{RECORD} is older than this session"
        for key in ("unique_name", "partition", "environ"):
            if record.get(key, entry.get(key)) != entry.get(key):
                return {}, f"{RECORD} belongs to another test case ({line(record[key])})"
        return record, ""

    def _now(self, named: Any) -> list[Path]:
        """The places where a path of the run report may be now.

        A results directory may have been copied as a whole, for example as an artefact of a CI job.
        Its files are then read and linked where its run report is.
        """
        if not isinstance(named, str) or not named:
            return []
        places = [] if self._sealed else [Path(named)]
        if self._root_then and named.startswith(self._root_then + os.sep):
            inside = named[len(self._root_then) + 1 :]
            inside = os.path.normpath(inside) if ".." in inside else inside
            if not (self._sealed and inside.startswith("..")):
                places.insert(0, self._root_now / inside)
        return places

    def session(self, file: Path, folder: Path, ended: list[Case], **more: Any) -> Session:
        """The session of these cases and the planned others, compared with the site's promise."""
        attempts = (*ended, *self._unfinished({(c.unique_name, c.where) for c in ended}))
        info, state, cases = self._info, self.plan.promise, last_attempts(attempts)
        of_cases = (doubt for case in attempts for doubt in case.doubts)
        doubts = tuple(dict.fromkeys((*promise.changes(state), *of_cases)))
        skipped = (c for c in attempts if c.verdict is None and not c.aborted)
        refused, partial = unlisted(state, skipped) if state else ([], [NO_PROMISE])
        complete = not any(case.aborted for case in cases)
        ran = (case for case in cases if complete and case.verdict is not None)
        unused, parts, others = unmeasured.links(state, ran)
        beside = beside_others(c.busy for c in cases if c.not_judged)
        partial += [*parts, *promise.few(doubts), *beside]
        promised = state.get("promised")
        return Session(
            file=file,
            uuid=line(info.get("uuid")),
            host=line(info.get("hostname")),
            start=reframe_date(info.get("time_start")),
            command=line(info.get("cmdline")),
            reframe=line(info.get("version")),
            cases=cases,
            attempts=attempts,
            faults=(*map(line, sequence(state.get("faults"))), *refused, *unused),
            partial=(*promise.narrowing(state), *partial),
            doubts=doubts,
            notes=tuple(others),
            promised=promised if isinstance(promised, int) else None,
            nothing_judged=line(state.get("nothing_judged")) or "red",
            extras={str(k): line(v) for k, v in info.items() if isinstance(v, str)},
            folder=folder,
            plan=self.plan,
            **more,
        )

    def passed(self, entry: Mapping[str, Any]) -> bool:
        """Whether the log says that a case of the plan passed."""
        passed = self.log.passed
        alike = (case for case in self.plan.cases if entry.items() <= case.items())
        return any((case.get("hashcode"), case_named(case).where) in passed for case in alike)

    def _unfinished(self, there: set[tuple[str, str]]) -> Iterator[Case]:
        """The planned cases that have not ended, each with the result that the log has for it.

        :param there: unique name and place of those that have.
        """
        for entry in self.plan.cases:
            case = case_named(entry)
            if (case.unique_name, case.where) in there | self._foreign:
                continue
            logged = line(entry.get("hashcode")), case.where
            if logged in self.log.skipped:
                yield replace(case, why=line(self.log.skipped[logged]))
            elif logged in self.log.failed:
                yield replace(case, verdict=Verdict.FAIL, why=f"failed without a {RECORD}")
            else:
                why = line(self.log.stopped) or "the run ended before it"
                yield replace(case, aborted=True, why=why)


def beside_others(why: Iterable[str]) -> tuple[str, ...]:
    """Why a run is only a part: what other work took, of each case that was not judged for it."""
    left = list(why)
    if not left:
        return ()
    count = f"{len(left)} case was" if len(left) == 1 else f"{len(left)} cases were"
    return (f"{count} not judged, because {left[0]}: run again when the machine is idle",)


def _lack(case: Case, record: Mapping[str, Any]) -> str:
    """Why the record of a case that passed is no evidence; empty if it is."""
    if record.get("verdict") not in [verdict.value for verdict in Verdict]:
        return f"{RECORD} has no verdict: nothing was judged"
    if case.verdict is Verdict.PASS and not case.metrics:
        return f"{RECORD} says PASS without a metric"
    why = _contradiction(case, record) if case.verdict in GREEN else ""
    return f"{RECORD} says {record['verdict']}, but {why}" if why else ""


def _contradiction(case: Case, record: Mapping[str, Any]) -> str:
    """Why a record cannot be that of a case that is not red; empty if it can."""
    judged = []
    for each, raw in zip(case.metrics, record["metrics"].values() if case.metrics else ()):
        said = raw if isinstance(raw, dict) else {}
        if each.value is None:
            return f"{each.name} is not a finite number: {line(said.get('value'))}"
        if each.verdict not in GREEN:
            return f"{each.name} is {line(said.get('verdict'))}"
        if each.verdict is Verdict.PASS:
            judged.append((each, each.value))
    if case.busy and not (case.verdict is Verdict.RECORDED and case.not_judged):
        return f"other work disturbed it: {case.busy}"
    if case.verdict is Verdict.RECORDED:
        return ""
    if case.problems:
        return f"it has a problem: {case.problems[0]}"
    if not judged:
        return "none of its metrics was judged"
    for each, value in judged:
        middle = statistics.median(each.samples or [value])
        if not math.isclose(value, middle, rel_tol=1e-9):
            return f"{each.name} = {value:g} is not the median of its samples, {middle:g}"
        low, high = (value if end is None else end for end in (each.lower, each.upper))
        if not low <= value <= high:
            return f"{each.name} = {value:g} is outside of its own bounds"
    return ""


def unlisted(state: Mapping[str, Any], skipped: Iterable[Case]) -> tuple[list[str], list[str]]:
    """As :func:`assay.store.promise.unlisted`, without cases that are red for another cause.

    :param state: what the plan of the session says of the promise. A session without a promise
        allows all, and says what its site does not describe.
    """
    if "may_skip" not in state:
        open_ = (case.why for case in skipped if case.why.startswith(promise.NEVER))
        return [], [f"{number} skipped: {why}" for why, number in Counter(open_).items()]
    causes = (REACHED, NOT_RUN["fail_deps"])
    others = (c for c in skipped if not c.why.startswith(causes))
    may_skip = mapping(state["may_skip"])
    return promise.unlisted({k: [*map(str, sequence(v))] for k, v in may_skip.items()}, others)


def case_named(entry: Mapping[str, Any]) -> Case:
    """A case of a plan, a run report or a promise by its names, without a verdict."""
    name = line(entry.get("display_name") or entry.get("name"))
    parameters = dict(re.findall(r"%([\w.]+)=(\S+)", name))
    return Case(
        test=name.split(" ")[0],
        display_name=name,
        unique_name=line(entry.get("unique_name")),
        system=line(entry.get("system")),
        partition=line(entry.get("partition")),
        environ=line(entry.get("environ")),
        verdict=None,
        parameters=parameters,
        figures=figures(entry.get("figures")),
    )


def _reason(entry: Mapping[str, Any]) -> str:
    """ReFrame's own reason for a failure, without its prefix for failed sanity patterns."""
    return re.sub("^(sanity|performance) error: ", "", line(entry.get("fail_reason")))


def broken(name: str, said: object, trace: Iterable[object]) -> str:
    """What an error in the code of a test was, with its place; empty for another failure.

    :param name: of the exception, whose text `said` is.
    :param trace: the frames of its traceback, as Python prints them.
    """
    if name == "ReframeSyntaxError":
        return f"the test {BROKEN}{line(said)}"
    kind = getattr(builtins, name, OSError)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, OSError):
        return ""
    frames = _FRAME.findall("\n".join(map(str, trace)))
    of_test = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    path, number, function = (of_test or frames or [("?", "0", "?")])[-1]
    who = "the test" if of_test else "ReFrame or Assay"
    return f"{who} {BROKEN}{name}: {line(said)} ({Path(path).name}:{number}, in {function})"


def _outputs(directory: Path | None, entry: Mapping[str, Any]) -> tuple[Path, ...]:
    """Standard output and error first, then the other text files that a reader may want."""
    if directory is None:
        return ()
    first = (line(entry.get("job_stdout")), line(entry.get("job_stderr")), RECORD)
    with os.scandir(directory) as found:
        there = [
            each.name
            for each in found
            if each.name[0] != "." and each.name.endswith(TEXT_SUFFIXES) and each.is_file()
        ]
    there.sort(key=lambda name: (*(name != one for one in first), name))
    return tuple(directory / name for name in there)
