"""Adds the sessions of many results directories to one history.

A run that is split into jobs leaves a ``results.db`` for each job. Each session is stored once,
however often it is added. A session in the store is never changed. SQLite writes all new sessions
or none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from assay.history import index
from assay.results import store
from assay.results.store import DATABASE, PERFLOG, StoreError


def add(into: Path, sources: Sequence[Path]) -> tuple[int, list[str]]:
    """Add the sessions of several results directories to the directory `into`, and to its index.

    A second call waits until the first has ended.

    :returns: how many sessions are new, and one line for each source or session that was left out,
        with the reason.
    :raises StoreError: the store in `into` is damaged. Nothing is changed then.
    :raises OSError: a file cannot be written. The store is unchanged then.
    """
    into.mkdir(parents=True, exist_ok=True)
    left_out, whole = [], []
    with _locked(into):
        if (into / DATABASE).exists():
            store.check(into / DATABASE)
        for source in sources:
            try:
                store.refuse_torn(source / DATABASE)
            except StoreError as error:
                left_out.append(str(error))
            else:
                whole.append(source)
        try:
            store.create(into / DATABASE)
            new = _merge(into, whole)
        except sqlite3.Error as error:
            raise StoreError(
                f"{into / DATABASE}: {error}; nothing was added. Free space, or end the process "
                "that uses the file, and add again"
            ) from None
        return new, left_out + index.ask(into, index.problems)


@contextlib.contextmanager
def _locked(into: Path) -> Iterator[None]:
    with (into / ".history.lock").open("a") as lock:  # "w" would empty what a link names
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise StoreError(
                f"{into}: its file system has no locks ({error.strerror}), so two writers could "
                "harm the history; keep it on another file system, or mount this one with locks"
            ) from None
        yield


def _merge(into: Path, sources: Iterable[Path]) -> int:
    new = 0
    with store.opened(into / DATABASE) as target:
        target.execute("BEGIN IMMEDIATE")
        try:
            for source in sources:
                new += _copy(source / DATABASE, target)
                # If the store cannot be written after this, the next call finds the lines there.
                _append(into, source / PERFLOG)
        except BaseException:
            target.execute("ROLLBACK")
            raise
        target.execute("COMMIT")
    return new


def _copy(path: Path, target: sqlite3.Connection) -> int:
    """Copy the sessions that are not in the target; returns how many."""
    new = set()
    with store.opened(path) as source:
        for row in source.execute(
            "SELECT uuid, session_start_unix, session_end_unix, json_blob, report_file "
            "FROM sessions"
        ):
            if target.execute(
                "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?, ?, ?)", row
            ).rowcount:
                new.add(row[0])
        if new:
            target.executemany(
                "INSERT INTO testcases VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    row
                    for row in source.execute(
                        "SELECT name, system, partition, environ, job_completion_time_unix, "
                        "session_uuid, uuid FROM testcases"
                    )
                    if row[5] in new
                ),
            )
    return len(new)


def _append(into: Path, source: Path) -> None:
    """Append the lines of a perflog that the history does not have, found by their hashes."""
    target = into / PERFLOG
    if not source.exists() and not target.exists():
        return

    def grow(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            size = _learn(connection, target)
            with target.open("ab") as stream:
                stream.truncate(size)  # half a line, which a killed process left
                for line in _lines(source):
                    if _is_new(connection, line):
                        size += stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
            connection.execute("UPDATE known SET perflog_bytes = ?", (size,))
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    index.change(into, grow)


def _learn(connection: sqlite3.Connection, target: Path) -> int:
    """Learn the lines that the index does not know yet; returns the size [B] of the whole lines."""
    size = target.stat().st_size if target.exists() else 0
    (known,) = connection.execute("SELECT perflog_bytes FROM known").fetchone()
    if known > size:  # another file is in its place
        connection.execute("DELETE FROM perflog")
        known = 0
    if known == size:
        return int(known)
    with target.open("rb") as stream:
        stream.seek(known)
        for line in stream:
            if not line.endswith(b"\n"):
                break
            _is_new(connection, line)
            known += len(line)
    return int(known)


def _is_new(connection: sqlite3.Connection, line: bytes) -> bool:
    number = int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big", signed=True)
    return connection.execute("INSERT OR IGNORE INTO perflog VALUES (?)", (number,)).rowcount > 0


def _lines(path: Path) -> Iterator[bytes]:
    """The lines that are valid JSON; a job that was killed may have left half a line."""
    try:
        stream = path.open("rb")
    except OSError:
        return
    with stream:
        for line in stream:
            with contextlib.suppress(ValueError):
                json.loads(line)
                yield line if line.endswith(b"\n") else line + b"\n"
