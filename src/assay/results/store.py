"""ReFrame's store of results: opens it, creates it, and names its damage.

A store of years has gigabytes. Only :func:`refuse_torn` reads all of it. A damage in the middle of
a store is therefore named by whoever reads that place.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from assay.reframe_compat import store

DATABASE, PERFLOG = "results.db", "perflog.jsonl"

#: How long to wait [s] for another process that writes the same file.
PATIENCE = 60.0


class StoreError(Exception):
    """A store cannot be read or written; the message is one line with its name and the remedy."""


@contextlib.contextmanager
def opened(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """A connection without implicit transactions, which is closed at the end.

    The default `mode` does not create a file. SQLite opens a file that is write-protected for
    reading only. It can roll back what a killed process left, which the mode ``ro`` cannot.

    :raises sqlite3.Error: the file cannot be opened.
    """
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None
    )
    with contextlib.closing(connection):
        yield connection


def _walk(connection: sqlite3.Connection) -> None:
    """Read the places of the store to which ReFrame adds.

    SQLite compares the length of the file with its header, reads the schema, the index of sessions,
    and the last page of each table.

    :raises sqlite3.Error: one of them is damaged.
    """
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    for table in tables & {"sessions", "testcases"}:
        connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()  # noqa: S608
    if "sessions" in tables:
        connection.execute("SELECT count(uuid) FROM sessions").fetchone()


def refuse_damaged(path: Path) -> None:
    """Refuses a store that exists and is damaged: ReFrame would only warn, and store nothing.

    :raises StoreError: the store is damaged where ReFrame adds to it.
    """
    if not path.exists():
        return
    try:
        with opened(path) as connection:
            _walk(connection)
    except sqlite3.Error as error:
        raise StoreError(
            f"{path}: damaged ({error}); restore it from a copy, or move it away: this run could "
            f"not be stored. {PERFLOG} beside it has the numbers of earlier runs"
        ) from None


def check(path: Path) -> None:
    """Refuse what is not a store of this ReFrame, or is damaged where it is added to.

    :raises StoreError: the store is missing, is damaged, or has another schema.
    """
    if not path.is_file():
        raise StoreError(f"{path}: there is no store of results")
    try:
        with opened(path) as connection:
            _walk(connection)
            versions = connection.execute("SELECT schema_version FROM metadata").fetchall()
    except sqlite3.Error as error:
        raise StoreError(
            f"{path}: no store of ReFrame's, or damaged ({error}); restore it from a copy"
        ) from None
    if versions != [(store.SCHEMA,)]:
        raise StoreError(
            f"{path}: schema {versions!r}, not {store.SCHEMA}: of another ReFrame; "
            "start a new history"
        )


def refuse_torn(path: Path) -> None:
    """Refuse a store that is not whole. This function reads all of it.

    :raises StoreError: as :func:`check`, or a session is incomplete.
    """
    check(path)
    try:
        with opened(path) as connection:
            (state,) = connection.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                raise StoreError(f"{path}: damaged ({state}); restore it from a copy")
            for uuid, blob in connection.execute("SELECT uuid, json_blob FROM sessions"):
                if json.loads(blob)["session_info"]["uuid"] != uuid:
                    raise ValueError
    except sqlite3.Error as error:
        raise StoreError(f"{path}: damaged ({error}); restore it from a copy") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f"{path}: a session in it is torn; restore it from a copy") from None


def create(path: Path) -> None:
    """Create the store, or the tables that are missing in it.

    :raises sqlite3.Error: the file cannot be written.
    """
    with opened(path, "rwc") as connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, store.TABLES.split(";\n")):
            connection.execute(statement)
        if not connection.execute("SELECT 1 FROM metadata").fetchone():
            connection.execute("INSERT INTO metadata VALUES (?)", (store.SCHEMA,))
        connection.execute("COMMIT")
