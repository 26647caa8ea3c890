"""The index of a history: the numbers of ReFrame's store, in tables that answer at once.

ReFrame keeps each session as one text of JSON, so a question about one metric reads every session.
``history.db`` beside ``results.db`` has the same numbers in columns. The store stays the source:
the index follows it session by session, and it is built anew if it is damaged, missing, or of
another version. It can be deleted at any time.

SQLite keeps a rollback journal here, not a write-ahead log, because the log needs memory that
processes share, and a network file system has none.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from assay.history import sessions
from assay.results import store

INDEX = "history.db"

#: Another number makes every index be built anew.
VERSION = 1

TABLES = """
CREATE TABLE sessions(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, start REAL NOT NULL,
    run TEXT NOT NULL, problem TEXT);
CREATE TABLE tests(id INTEGER PRIMARY KEY, name TEXT NOT NULL, system TEXT NOT NULL,
    partition TEXT NOT NULL, environ TEXT NOT NULL, UNIQUE(name, system, partition, environ));
CREATE TABLE nodes(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, single INTEGER NOT NULL);
CREATE TABLE metrics(id INTEGER PRIMARY KEY, test INTEGER NOT NULL, name TEXT NOT NULL,
    unit TEXT NOT NULL, UNIQUE(test, name, unit));
CREATE TABLE cases(session INTEGER, number INTEGER, test INTEGER, node INTEGER, result TEXT,
    measured INTEGER, PRIMARY KEY(session, number)) WITHOUT ROWID;
CREATE TABLE measured(metric INTEGER, node INTEGER, session INTEGER, number INTEGER, value REAL,
    PRIMARY KEY(metric, node, session, number)) WITHOUT ROWID;
CREATE INDEX measured_by_session ON measured(session, number);
CREATE TABLE perflog(line INTEGER PRIMARY KEY);
CREATE TABLE known(perflog_bytes INTEGER NOT NULL);
INSERT INTO known VALUES (0);
"""

#: Sessions that are written in one transaction.
_BATCH = 20

#: How long [s] the command is silent while it reads sessions.
_SILENT = 10.0

Answer = TypeVar("Answer")

#: (table, values of a row) -> its number, so that each row is looked up once.
_Ids = dict[tuple[str, tuple[object, ...]], int]


def ask(folder: Path, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """The answer of a function that reads the index of a history, once it is up to date.

    :param folder: holds ``results.db``. If nobody may write there, a copy of the index is used.
    :raises StoreError: the store is missing or damaged, or the index cannot be written.
    """
    database = folder / store.DATABASE
    store.check(database)
    with contextlib.ExitStack() as stack:
        path = folder / INDEX
        if not _writable(folder) or (path.exists() and not os.access(path, os.W_OK)):
            copy = Path(stack.enter_context(tempfile.TemporaryDirectory())) / INDEX
            if path.exists() and not path.with_name(f"{INDEX}-journal").exists():
                shutil.copyfile(path, copy)
            path = copy
        return _attempt(path, lambda connection: _answer(connection, database, question))


def _answer(
    connection: sqlite3.Connection,
    database: Path,
    question: Callable[[sqlite3.Connection], Answer],
) -> Answer:
    update(connection, database)
    return question(connection)


def change(folder: Path, grow: Callable[[sqlite3.Connection], None]) -> None:
    """Calls a function that writes into the index, which need not be up to date.

    :raises StoreError: the index cannot be written.
    """
    _attempt(folder / INDEX, grow)


def _attempt(path: Path, use: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Opens the index and uses it; a damaged index is deleted, and used when it is built anew."""
    try:
        return _used(path, use)
    except sqlite3.OperationalError as error:
        raise _refusal(path, error) from None
    except sqlite3.DatabaseError as error:
        for each in (path, path.with_name(f"{path.name}-journal")):
            each.unlink(missing_ok=True)
        print(f"assay history: {path}: {error}; it is built anew", file=sys.stderr)
    try:
        return _used(path, use)
    except sqlite3.Error as error:
        raise _refusal(path, error) from None


def _used(path: Path, use: Callable[[sqlite3.Connection], Answer]) -> Answer:
    with store.opened(path, "rwc") as connection:
        prepare(connection)
        return use(connection)


def _refusal(path: Path, error: sqlite3.Error) -> store.StoreError:
    return store.StoreError(
        f"{path}: {error}; delete it if no other process uses it: it follows from "
        f"{store.DATABASE}. If the file system has no locks, copy the history to a local disk"
    )


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables, and replace those of another version.

    :raises sqlite3.Error: the file is damaged, or cannot be written.
    """
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    with _transaction(connection):
        if _version(connection) == VERSION:
            return  # another process was faster
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        for statement in filter(str.strip, TABLES.split(";\n")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def update(connection: sqlite3.Connection, database: Path) -> None:
    """Bring the index up to what the store has: new sessions, and those that ReFrame removed.

    A session that cannot be read has its problem in the table of sessions, and is tried again by
    the next call.

    :param database: ReFrame's store.
    :raises StoreError: the store is damaged where it lists its sessions.
    :raises sqlite3.Error: the index is damaged or cannot be written.
    """
    with store.opened(database) as source:
        stored = _stored(source, database)
        known = dict(connection.execute("SELECT uuid, problem FROM sessions"))
        gone = [uuid for uuid, problem in known.items() if problem or uuid not in stored]
        new = [uuid for uuid in stored if uuid not in known or known[uuid]]
        if gone:
            connection.execute("BEGIN IMMEDIATE")
            with _transaction(connection):
                _forget(connection, gone)
        ids: _Ids = {}
        said = time.monotonic()
        for first in range(0, len(new), _BATCH):
            connection.execute("BEGIN IMMEDIATE")
            with _transaction(connection):
                for uuid in new[first : first + _BATCH]:
                    _insert(connection, source, uuid, ids)
            if time.monotonic() - said > _SILENT:
                said = time.monotonic()
                print(f"assay history: {first} of {len(new)} sessions are read", file=sys.stderr)


def _stored(source: sqlite3.Connection, database: Path) -> dict[str, None]:
    """The sessions of the store; the query reads an index of SQLite's, no session."""
    try:
        return dict.fromkeys(uuid for (uuid,) in source.execute("SELECT uuid FROM sessions"))
    except sqlite3.Error as error:
        raise store.StoreError(f"{database}: damaged ({error}); restore it from a copy") from None


def _forget(connection: sqlite3.Connection, uuids: Iterable[str]) -> None:
    for uuid in uuids:
        row = connection.execute("SELECT id FROM sessions WHERE uuid = ?", (uuid,)).fetchone()
        if row:
            connection.execute("DELETE FROM measured WHERE session = ?", row)
            connection.execute("DELETE FROM cases WHERE session = ?", row)
            connection.execute("DELETE FROM sessions WHERE id = ?", row)


def _insert(
    connection: sqlite3.Connection, source: sqlite3.Connection, uuid: str, ids: _Ids
) -> None:
    if connection.execute("SELECT 1 FROM sessions WHERE uuid = ?", (uuid,)).fetchone():
        return  # another process was faster
    found, start, problem = None, 0.0, None
    try:
        row = source.execute(
            "SELECT json_blob, session_start_unix FROM sessions WHERE uuid = ?", (uuid,)
        ).fetchone()
        if row is None:
            return  # ReFrame has just removed it
        start = float(row[1] or 0)
        document = json.loads(row[0])
        json.dumps(document, ensure_ascii=False).encode()  # SQLite takes no lone surrogate
        found = sessions.read(document, start)
    except sqlite3.Error as error:
        problem = f"cannot be read ({error})"
    except (ValueError, TypeError, RecursionError):
        problem = "is torn"
    run = found.run if found else uuid[:8]
    session = connection.execute(
        "INSERT INTO sessions(uuid, start, run, problem) VALUES (?, ?, ?, ?)",
        (uuid, found.start if found else start, run, problem),
    ).lastrowid
    for number, case in enumerate(found.cases if found else ()):
        test = _id(connection, ids, "tests", "name, system, partition, environ", case.test)
        node = _id(connection, ids, "nodes", "name, single", (case.node, case.single))
        connection.execute(
            "INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?)",
            (session, number, test, node, case.result, len(case.measured)),
        )
        connection.executemany(
            "INSERT OR REPLACE INTO measured VALUES (?, ?, ?, ?, ?)",
            [
                (_id(connection, ids, "metrics", "test, name, unit", (test, name, unit)),
                 node, session, number, value)
                for (name, unit), value in case.measured.items()
            ],
        )  # fmt: skip


def _id(
    connection: sqlite3.Connection, ids: _Ids, table: str, columns: str, values: tuple[object, ...]
) -> int:
    """The number of a row with these values, which is added if it is not there."""
    if (table, values) in ids:
        return ids[table, values]
    marks = ", ".join("?" * len(values))
    wanted = " AND ".join(f"{column} = ?" for column in columns.split(", "))
    connection.execute(
        f"INSERT OR IGNORE INTO {table}({columns}) VALUES ({marks})",  # noqa: S608 - own names
        values,
    )
    row = connection.execute(f"SELECT id FROM {table} WHERE {wanted}", values)  # noqa: S608
    ids[table, values] = int(row.fetchone()[0])
    return ids[table, values]


def problems(connection: sqlite3.Connection) -> list[str]:
    """One line for each session of the store that is left out of all answers."""
    return [
        f"session {uuid} {problem}"
        for uuid, problem in connection.execute(
            "SELECT uuid, problem FROM sessions WHERE problem IS NOT NULL ORDER BY start"
        )
    ]
