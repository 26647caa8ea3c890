#!/usr/bin/env python3
"""Joins the jobs of a pipeline into one session again, and writes the report of that.

ci/gitlab/gather.py FOLDER PAGE

It finds the cases that are missing. ``plan.py`` promises jobs and their cases in ``promise.json``
before any job runs. Each job leaves its results in ``jobs/NAME/ID/`` beside that file. A job that
is started again has another ID. If a job is lost, was never started, or ran another selection, a
promised case has no record. Such a case is a FAIL here, because the state that GitLab gives a child
pipeline does not tell what the pipeline measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from assay.exits import Exit
from assay.judge import Verdict
from assay.show.report import write_report
from assay.store import promise as site_promise
from assay.store.cases import Case, Session
from assay.store.sanitize import line, reframe_date, sequence
from assay.store.session import (
    CLOCK_SKEW_SECONDS,
    ReportError,
    beside_others,
    case_named,
    last_attempts,
    load_session,
    unlisted,
)

FILE = "promise.json"

#: Version of the promise. Increase it by one whenever a key changes its meaning.
SCHEMA = 1

#: The folder of the results that the jobs leave, beside the promise.
JOBS = "jobs"

#: Ending of the name of a folder that a job has not completed (``case.sh``).
UNFINISHED = ".part"

#: File in such a folder that says how the job was cancelled.
CANCELLED = "cancelled"

CLOCK_SKEW = timedelta(seconds=CLOCK_SKEW_SECONDS)

NO_REPORT = "left no run report: it did not run, or was lost"
A_PART = "was cancelled: what it left is a part of its evidence"


class Promised(msgspec.Struct, frozen=True):
    """A case by its names, with its figures, as its test declares them."""

    name: str
    where: str
    figures: list[Any] = []


class Job(msgspec.Struct, frozen=True):
    """The cases of a job; `folder` is the name of its folder, `title` its name in the pipeline."""

    folder: str
    title: str
    cases: list[Promised]


class Promise(msgspec.Struct, frozen=True):
    """The jobs and cases that a pipeline is to run.

    :ivar node_hours: the budget of nodes times hours inside benchmarks; None for no budget.
    :ivar minutes: the budget of time from the first start to the last end; None for no budget.
    :ivar site: how the plan compares with the promise of the site
        (:func:`assay.store.promise.state`).
    :ivar extras: what each session of this pipeline states about itself, such as its commit.
    :ivar planned: when the jobs were planned, as ReFrame writes a time.
    """

    schema: Literal[1]
    jobs: list[Job]
    node_hours: float | None = None
    minutes: float | None = None
    site: dict[str, Any] = {}
    extras: dict[str, str] = {}
    planned: str = ""

    @classmethod
    def read(cls, file: Path) -> Promise:
        """Read ``promise.json``.

        :raises ReportError: the file does not exist, is not JSON, or promises no case.
        """
        try:
            promise = msgspec.json.decode(file.read_bytes(), type=cls)
        except OSError as error:
            raise ReportError(
                f"{file}: {error.strerror}: no case was planned, so none ran; the log of the job "
                "that plans the acceptance says why"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ReportError(
                f"{file}: not a promise of schema {SCHEMA} ({error}); plan the acceptance anew"
            ) from None
        if not any(job.cases for job in promise.jobs):
            raise ReportError(f"{file}: promises no case; plan the acceptance anew")
        return promise


def gather(folder: Path) -> Session:
    """The sessions of all jobs as one, with a FAIL for each promised case that no job ran.

    If a job was started again, all its attempts count. A case that failed and then passed could not
    be decided. An attempt that was lost is a fault, even if another attempt succeeded.

    :param folder: the folder that holds the promise and the results of each job.
    :raises ReportError: there is no promise that can be read.
    """
    promise = Promise.read(folder / FILE)
    attempts: list[Case] = []
    missing: list[Case] = []
    sessions: list[Session] = []
    lost: list[str] = []
    for job in promise.jobs:
        found, lacks = _of_job(folder / JOBS / job.folder)
        lack = "; ".join(dict.fromkeys(lacks.values()))
        if found:
            lost += [f"job {job.title!r}, {n}: {why}" for n, why in lacks.items()]
        lost += [
            f"job {job.title!r}: {fault}"
            for session in found
            for fault in (*_doubtful(promise, session), *session.faults)
        ]
        sessions += found
        ran = [case for session in found for case in session.attempts]
        there = {(case.display_name, case.where) for case in ran}
        missing += [
            _missing(case, f"the job {job.title!r} {lack or 'did not run it'}")
            for case in job.cases
            if (case.name, case.where) not in there
        ]
        attempts += ran
    known = {job.folder for job in promise.jobs}
    strangers = sorted({path.name for path in (folder / JOBS).glob("*")} - known)
    lost += [f"the job of {name!r} left results, and no such job was planned" for name in strangers]
    lost += map(line, sequence(promise.site.get("faults")))
    skipped = (c for c in attempts if c.verdict is None and not c.aborted)
    refused, incomplete = unlisted(promise.site, skipped)
    # A job that kept the plan of its session has named them.
    if not any(site_promise.REFUSED in fault for fault in lost):
        lost += refused
    faults = [*lost, *_above_budget(promise, sessions, attempts)]
    if missing:
        promised = sum(len(job.cases) for job in promise.jobs)
        faults.insert(0, f"{len(missing)} of {promised} promised cases are missing")
    starts = [session.start for session in sessions if session.start]
    doubts = tuple(dict.fromkeys(doubt for session in sessions for doubt in session.doubts))
    return Session(
        file=folder / FILE,
        uuid="",
        host=", ".join(sorted({session.host for session in sessions})),
        start=min(starts, default=None),
        elapsed=sum(session.elapsed for session in sessions),
        command=f"the {len(promise.jobs)} jobs of a pipeline",
        reframe=", ".join(sorted({session.reframe for session in sessions})),
        cases=last_attempts([*attempts, *missing]),
        attempts=tuple(attempts),
        others=tuple(case for session in sessions for case in session.others),
        faults=tuple(dict.fromkeys(faults)),
        partial=(
            *site_promise.narrowing(promise.site),
            *incomplete,
            *beside_others(case.busy for case in last_attempts(attempts) if case.not_judged),
            *site_promise.few(doubts),
        ),
        doubts=doubts,
        promised=promise.site.get("promised"),
        nothing_judged=str(promise.site.get("nothing_judged", "red")),
    )


def _doubtful(promise: Promise, session: Session) -> Iterator[str]:
    """Why the results of a job are not whole, or not of this pipeline, one line each."""
    if aborted := sum(case.aborted for case in session.attempts):
        yield f"{aborted} of its cases were aborted"
    for name, value in promise.extras.items():
        if session.extras.get(name) != value:
            yield f"its results are of {name} {session.extras.get(name)}, not {value}"
    planned = reframe_date(promise.planned)
    if planned and session.start and session.start < planned - CLOCK_SKEW:
        yield f"its results of {session.start:%Y-%m-%d %H:%M} are older than the plan"


def _of_job(folder: Path) -> tuple[list[Session], dict[str, str]]:
    """All sessions of a job in order of time, and the reason for each attempt without a session."""
    sessions, lacks = [], {}
    # Each attempt has a folder from its start. The folder gets its final name when it is complete.
    attempts = sorted(path for path in folder.glob("*") if path.is_dir())
    for attempt in attempts:
        number = attempt.name.removesuffix(UNFINISHED)
        reports = sorted(attempt.glob("reports/run-report-*.json"))
        if (attempt / CANCELLED).exists():
            lacks[f"attempt {number}"] = A_PART
            continue
        if attempt.name != number or not reports:
            lacks[f"attempt {number}"] = NO_REPORT
            continue
        for report in reports:
            try:
                sessions.append(load_session(report))
            except ReportError as error:
                lacks[f"attempt {number}"] = f"left a run report that cannot be read ({error})"
    if not attempts:
        lacks[""] = NO_REPORT
    return sorted(sessions, key=lambda session: str(session.start or "")), lacks


def _missing(promised: Promised, why: str) -> Case:
    system, _, rest = promised.where.partition(":")
    partition, _, environ = rest.partition("+")
    place = {"system": system, "partition": partition, "environ": environ}
    case = case_named({"name": promised.name, "figures": promised.figures, **place})
    return replace(case, verdict=Verdict.FAIL, why=f"missing: {why}", missing=True)


def node_hours(attempts: list[Case]) -> float:
    """The use of the machine: nodes times hours inside benchmarks."""
    return sum(max(len(case.hosts), 1) * case.seconds.benchmark for case in attempts) / 3600


def minutes(sessions: list[Session]) -> float:
    """The time from the first start to the last end."""
    starts = [session.start for session in sessions if session.start]
    ends = [s.start + timedelta(seconds=s.elapsed) for s in sessions if s.start]
    return (max(ends) - min(starts)).total_seconds() / 60 if starts else 0.0


def _above_budget(promise: Promise, sessions: list[Session], attempts: list[Case]) -> Iterator[str]:
    for used, budget, unit in (
        (node_hours(attempts), promise.node_hours, "node-hours"),
        (minutes(sessions), promise.minutes, "minutes"),
    ):
        if budget is not None and used > budget:
            yield f"{used:.2f} {unit} are above the budget of {budget:g}"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print("usage: ci/gitlab/gather.py FOLDER PAGE", file=sys.stderr)
        return Exit.USAGE
    folder, page = map(Path, arguments)
    try:
        exports = page.with_name("junit.xml"), page.with_name("metrics.prom")
        return write_report(gather(folder), page, None, None, *exports)
    except ReportError as error:
        print(f"gather: {error}", file=sys.stderr)
        return Exit.UNKNOWN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
