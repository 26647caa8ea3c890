"""The history of a machine: what each of its sessions measured, in one SQLite file.

A session is added once and never changed. The file keeps a rollback journal and no write-ahead log,
because the log needs memory that processes share, and a network file system has none.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from assay import files, metrics
from assay.archive import bundle
from assay.judge import GREEN
from assay.show import nodes, summary
from assay.store import run_folder, session
from assay.store.cases import Case, Session
from assay.store.record import FILE as RECORD

#: The file in the folder of a history, or in the results directory of a site.
FILE = "history.db"

#: Another number for each other schema.
VERSION = 4

#: What makes the tables, and a view for readers, unless another process was faster.
SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
SCHEMA = f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT"

#: The metric of a case that measured nothing: 1 if it passed, no value if it did not.
RESULT = "result"

#: How long [s] to wait for another process that writes the same file.
PATIENCE = 60.0


class StoreError(Exception):
    """A history cannot be read or written; the message is one line with its name and the remedy."""


@contextlib.contextmanager
def open_history(path: Path, *, create: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection to a history in a file or a folder, without implicit transactions.

    :raises StoreError: there is no history, it is damaged, or it cannot be read or written.
    """
    file = path if path.suffix == ".db" else path / FILE
    if create and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        _make(file)
    elif file.is_file() and not file.stat().st_size:
        mend = "restore it from a copy, or remove it to begin anew"
        raise StoreError(f"{file}: is empty: it was emptied; {mend}")
    elif not file.is_file():
        raise StoreError(f"{file}: there is no history; make it: assay history add {path} RESULTS")
    try:
        # The mode rw also rolls back what a killed process left, which the mode ro cannot.
        connection = sqlite3.connect(
            f"{file.resolve().as_uri()}?mode=rw",
            uri=True, timeout=PATIENCE, isolation_level=None,
        )  # fmt: skip
        with contextlib.closing(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != VERSION:
                raise StoreError(
                    f"{file}: of version {version}, this assay has {VERSION}; move it away, and "
                    "add the results again"
                )
            yield connection
    except sqlite3.Error as error:
        raise StoreError(
            f"{file}: {error}; free space, or end the process that uses it; if it is damaged, "
            "restore it from a copy, or move it away and add the results again"
        ) from None


def _make(file: Path) -> None:
    """Make an empty history at once, unless another process was faster.

    :raises OSError, StoreError: it cannot be written; nothing is left behind.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
            connection.executescript(SCHEMA)
        with contextlib.suppress(FileExistsError):
            os.link(new, file)
    except sqlite3.Error as error:
        raise StoreError(f"{file}: {error}; free space, or name another folder") from None
    finally:
        new.unlink(missing_ok=True)


def add(
    connection: sqlite3.Connection,
    sources: Iterable[Path],
    accept: Callable[[bytes, bytes | None], object] | None = None,
) -> tuple[int, list[str]]:
    """Add the sessions of results directories and bundles, each once.

    A killed session has no run report; its finished cases are added when nothing runs any more.

    :param accept: says by an error whose bundles are not read, see
        :func:`assay.archive.bundle.read_bundle`.
    :returns: how many sessions are new, and one line for each source or session that was left out,
        with the reason.
    :raises sqlite3.Error: the history is damaged or cannot be written.
    """
    new, left_out = 0, []
    for source in sources:
        with contextlib.ExitStack() as stack:
            results = source
            try:
                if source.is_file():
                    results = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                    bundle.unpack(bundle.read_bundle(source, accept).members, results)
                    results /= bundle.RESULTS
                reports = run_folder.run_reports(results / "reports")
            except (bundle.BundleError, bundle.Refused) as error:
                left_out.append(f"{source}: {error}")
                continue
            killed = [] if results is not source else _killed(results, reports)
            empty = source.is_dir() and not any(source.rglob(RECORD))  # a job that ran nothing
            if not (reports or killed or empty):
                left_out.append(f"{source}: no run report is in it; name results or a bundle")
            for report in (*reports, *killed):
                try:
                    new += _add(connection, report, sealed=results is not source)
                except session.ReportError as error:
                    left_out.append(str(error))
                except ValueError as error:
                    left_out.append(f"{report}: {error}")
    return new, left_out


def _killed(results: Path, reports: Iterable[Path]) -> list[Path]:
    """The folders of the sessions that no readable run report is of, unless a run goes on."""
    reported = set()
    for report in reports:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            reported.add(Path(files.read_json(report)["session_info"]["prefix_output"]).name)
    folders = [] if run_folder.holder(results) else sorted((results / "output").glob("*"))
    return [f for f in folders if f.name not in reported and run_folder.read_plan(f)]


def _add(connection: sqlite3.Connection, report: Path, *, sealed: bool) -> bool:
    """Add the session of a run report; False if it is there already.

    :raises ReportError, ValueError: it cannot be read, or has nothing for a history.
    """
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        uuid = str(files.read_json(report)["session_info"]["uuid"])
        if connection.execute("SELECT 1 FROM sessions WHERE uuid = ?", (uuid,)).fetchone():
            return False
    found = session.load_session(report, sealed=sealed)
    if found.salvaged and found.start:
        if not any(case.recorded for case in found.cases):
            return False  # nothing had ended
        found = replace(found, uuid=f"{report.name}-{found.host}-{found.start:%Y%m%dT%H%M%S%z}")
    if found.start is None or not found.uuid:
        raise ValueError("does not say when the session began, or which one it is")
    if not any(case.recorded for case in found.cases):
        raise ValueError("no case left a record")
    return insert(connection, found)


def insert(connection: sqlite3.Connection, found: Session) -> bool:
    """Write what a session measured that has a time and a name; False if another process just did.

    :raises sqlite3.Error: the history is damaged or cannot be written.
    """
    assert found.start is not None
    name = found.extras.get("pipeline") or found.uuid[:8]
    with connection:  # commits all, or rolls back
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute(
            "INSERT OR IGNORE INTO sessions(uuid, start, run, word) VALUES (?, ?, ?, ?)",
            (found.uuid, found.start.timestamp(), name, summary.outcome(found).word),
        )
        if not row.rowcount:
            return False
        for number, case in enumerate(found.cases):
            if case.verdict is None:
                continue
            place = (case.display_name, case.system, case.partition, case.environ)
            node = case.hosts[0] if len(case.hosts) == 1 else ""
            for name, unit, value in _values(case):
                key = (*place, name, unit)
                connection.execute(
                    "INSERT OR IGNORE INTO metrics(test, system, partition, environ, name, unit, "
                    "kind) VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, metrics.own([unit]).get(unit)),
                )  # fmt: skip
                connection.execute(
                    "INSERT INTO measured SELECT id, ?, ?, ?, ?, ? FROM metrics WHERE test = ? AND "
                    "system = ? AND partition = ? AND environ = ? AND name = ? AND unit = ?",
                    (node, row.lastrowid, number, value, case.verdict.value, *key),
                )
        for system in found.systems:
            its = tuple(case for case in found.cases if case.system == system)
            for of in nodes.rows(replace(found, cases=its)):
                if of.kind == nodes.NODE:
                    by = of.tests or dict.fromkeys(t for p in of.parts.values() for t in p.tests)
                    said = (of.verdict, " ".join(by), "; ".join(of.reasons[:1]), of.drained)
                    connection.execute(
                        "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (system, of.name, row.lastrowid, *said),
                    )
    return True


def _values(case: Case) -> list[tuple[str, str, float | None]]:
    """Name, unit and value of each metric of a case that was run."""
    result = 1.0 if case.verdict in GREEN else None
    measured = [(metric.name, metric.unit, metric.value) for metric in case.metrics]
    return measured or [(RESULT, "", result)]


@dataclass(frozen=True)
class Run:
    """All sessions of one pipeline, or a session that belongs to none.

    :ivar start: seconds since 1970.
    :ivar values: the values by (case, metric with its unit). A value is None if the case failed
        before it had a number.
    """

    name: str
    start: float
    values: dict[tuple[str, str], float | None]


def latest_runs(connection: sqlite3.Connection, last: int) -> list[Run]:
    """So many of the latest runs, in order of time.

    :raises sqlite3.Error: the history is damaged.
    """
    names = connection.execute(
        "SELECT run, min(start) AS began FROM sessions GROUP BY run ORDER BY began DESC LIMIT ?",
        (last,),
    ).fetchall()
    found = [Run(name, start, {}) for name, start in reversed(names)]
    for run in found:
        for case, metric, value in connection.execute(
            "SELECT m.test || ' @' || m.system || ':' || m.partition || '+' || m.environ, "
            "CASE m.unit WHEN '' THEN m.name ELSE m.name || ' [' || m.unit || ']' END, d.value "
            "FROM sessions s CROSS JOIN measured d INDEXED BY measured_by_session "
            "ON d.session = s.id CROSS JOIN metrics m ON m.id = d.metric WHERE s.run = ? "
            "ORDER BY s.start, s.id, d.number",
            (run.name,),
        ):
            run.values[case, metric] = value
    return found
