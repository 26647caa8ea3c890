"""Stores of ReFrame with made sessions: only the fields that the history reads, and no more."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.results import store

DAY = 86400.0


def case(value: Any = 10.0, node: str = "node01", **other: Any) -> dict[str, Any]:
    """A made case with one metric: a bandwidth of `value` GB/s."""
    return {
        "display_name": "Made", "system": "made", "partition": "net", "environ": "mpi",
        "result": "pass", "job_nodelist": [node], "job_completion_time_unix": None,
        "perfvalues": {"made:net:bandwidth": [value, 0, None, None, "GB/s", "pass"]}, **other,
    }  # fmt: skip


def session(day: int, *cases: dict[str, Any], **info: Any) -> dict[str, Any]:
    """A made session with these cases in one run."""
    about = {"uuid": f"{day:08d}-made", "time_start_unix": day * DAY, **info}
    return {"session_info": about, "runs": [{"testcases": list(cases)}]}


def write(folder: Path, sessions: Sequence[Any]) -> Path:
    """Add sessions to the store of a folder, which is made if it does not exist."""
    folder.mkdir(exist_ok=True)
    store.create(folder / store.DATABASE)
    connection = sqlite3.connect(folder / store.DATABASE)
    for each in sessions:
        info = each["session_info"]
        row = (info["uuid"], info.get("time_start_unix"), None, json.dumps(each), None)
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    return folder
