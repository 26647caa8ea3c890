"""How long `assay history` takes, and how much memory, beside ReFrame's own queries of the same.

    .venv/bin/python tests/history_size.py --cases 1000000 [--keep DIR]

The script makes a store of ReFrame with sessions of 1,000 cases each, and times each command in a
process of its own. The cases are made: their fields are those that ReFrame 4.10 stores, their
numbers are noise of 1 %, and one metric drops by 6 % half-way. One million cases need 10 GB.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from assay.results import store

ROOT = Path(__file__).resolve().parents[1]
PER_SESSION, NODES = 1000, 4
PARTITIONS = ("intra-node", "inter-node")
FIRST = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc).timestamp()
DAY = 86400.0


def template() -> list[str]:
    """A made case as JSON, cut at the places of: name, partition, node, values, number, time."""
    case = {
        **dict.fromkeys(("build_jobid", "build_stderr", "build_stdout", "fail_phase")),
        "dependencies_actual": [], "environ": "mpi", "filename": "/made/reframe/made.py",
        "job_completion_time": "made", "job_completion_time_unix": "@time@",
        "job_nodelist": ["@node@"], "partition": "@partition@", "result": "pass", "run_index": 0,
        "scheduler": "slurm", "time_total": 1.5, "uuid": "@number@", "outputdir": "/made/" * 20,
        "system": "made", "display_name": "@name@", "name": "@name@", "unique_name": "@name@",
        "hashcode": "00000000", "perfvalues": "@values@", "num_tasks": 1, "variables": {},
        # The commands around a launch are most of a case's text.
        "prerun_cmds": ["# a made line of a job script" + "." * 50] * 16,
        "postrun_cmds": ["# a made line of a job script" + "." * 50] * 12,
        "tags": ["made", "full"], "descr": "a made case", "maintainers": [],
    }  # fmt: skip
    text = json.dumps(case)
    for quoted in ("@time@", "@values@"):
        text = text.replace(f'"{quoted}"', quoted)
    return text.split("@")


def session(number: int, parts: list[str], rng: random.Random, half: int) -> tuple[tuple, list]:
    """The rows of one session: of the table of sessions, and of the table of cases."""
    name = str(uuid.UUID(int=rng.getrandbits(128)))
    start = FIRST + number * DAY
    cases, rows = [], []
    for case in range(PER_SESSION):
        title, partition = f"Made %size={case // 2}", PARTITIONS[case % 2]
        node = f"node{rng.randrange(NODES):02}"
        rate = 100.0 * rng.gauss(1, 0.01) * (0.94 if case == 0 and number >= half else 1)
        values = {
            f"made:{partition}:bandwidth": [rate, 0, None, None, "MB/s", "pass"],
            f"made:{partition}:latency": [rng.gauss(1, 0.01), 0, None, None, "us", "pass"],
        }
        fields = {
            "time": str(start + case), "node": node, "partition": partition, "name": title,
            "number": f"{name}:0:{case}", "values": json.dumps(values),
        }  # fmt: skip
        cases.append("".join(fields.get(part, part) for part in parts))
        rows.append((title, "made", partition, "mpi", start + case, name, fields["number"]))
    info = {
        "uuid": name, "time_start_unix": start, "time_end_unix": start + PER_SESSION,
        "time_start": "made", "time_end": "made", "time_elapsed": PER_SESSION, "cmdline": "made",
        "num_cases": PER_SESSION, "num_failures": 0, "num_aborted": 0, "num_skipped": 0,
        "hostname": "made", "version": "4.10", "user": "made", "data_version": "4.2",
    }  # fmt: skip
    blob = (
        f'{{"session_info": {json.dumps(info)}, "runs": [{{"num_cases": {PER_SESSION}, '
        f'"run_index": 0, "testcases": [{", ".join(cases)}]}}], "restored_cases": []}}'
    )
    return (name, start, start + PER_SESSION, blob, "made.json"), rows


def make(folder: Path, first: int, count: int, half: int) -> None:
    """Write a store with sessions of these numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    store.create(folder / store.DATABASE)
    parts, rng = template(), random.Random(first)
    with sqlite3.connect(folder / store.DATABASE) as connection:
        for number in range(first, first + count):
            row, rows = session(number, parts, rng, half)
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)
            connection.executemany("INSERT INTO testcases VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            if number % 50 == 49:
                connection.commit()
    connection.close()


def timed(what: str, command: list[str], limit: float, env: dict[str, str] | None = None) -> None:
    """Run a command and print a line of the table: seconds, seconds of processor time, MiB."""
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )
        alarm = threading.Timer(limit, process.kill)
        alarm.start()
        _, status, used = os.wait4(process.pid, 0)
        alarm.cancel()
        wall = time.monotonic() - began
        out.seek(0)
        said = out.read().decode(errors="replace").splitlines()
    ended = os.waitstatus_to_exitcode(status)
    last = said[-1] if ended else f"{len(said)} lines"
    print(
        f"| {what} | {wall:.2f} | {used.ru_utime + used.ru_stime:.2f} | "
        f"{used.ru_maxrss / 1024:.0f} | {f'exit {ended}: ' if ended else ''}{last[:80]} |",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000, help="default: 100000")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the store here, and keep it")
    parser.add_argument("--limit", type=float, default=1800, help="for a command [s]")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        measure(folder, max(args.cases // PER_SESSION, 20), args.limit)
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    return 0


def measure(folder: Path, sessions: int, limit: float) -> None:
    history, new = folder / "history", folder / "new"
    if not (history / store.DATABASE).exists():
        make(history, 0, sessions, sessions // 2)
    shutil.rmtree(new, ignore_errors=True)
    make(new, sessions + int(time.time()) % 10**6, 1, 0)
    size = (history / store.DATABASE).stat().st_size / 1e6
    print(f"{sessions * PER_SESSION} cases in {sessions} sessions, {size:.0f} MB\n")
    print("| command | wall [s] | processor [s] | largest memory [MiB] | answer |")
    print("|---|---|---|---|---|")
    assay = [sys.executable, "-m", "assay", "history"]
    at = str(history)
    timed("`show`, which builds the index", [*assay, "show", at], limit)
    timed("`show`", [*assay, "show", at], limit)
    timed("`show --last 2`", [*assay, "show", at, "--last", "2"], limit)
    timed("`add` of 1,000 cases", [*assay, "add", at, str(new)], limit)
    timed("`changes`", [*assay, "changes", at], limit)
    timed("`show --page`", [*assay, "show", at, "--page", str(folder / "history.html")], limit)
    timed("`export`", [*assay, "export", at, str(folder / "history.csv")], limit)
    index = (history / "history.db").stat().st_size / 1e6
    settings = folder / "settings.py"
    entry = {"enable": True, "sqlite_db_file": str(history / store.DATABASE)}
    settings.write_text(f"site_configuration = {{'storage': [{entry!r}]}}\n")
    reframe = [str(Path(sys.executable).with_name("reframe")), "-C", str(settings)]
    begin, end = (
        f"{datetime.datetime.fromtimestamp(FIRST + day * DAY):%Y%m%dT%H%M%S}"
        for day in (sessions - 10, sessions)
    )
    first = f"{datetime.datetime.fromtimestamp(FIRST - DAY):%Y%m%dT%H%M%S}"
    queries = {
        "the last 10 sessions": (f"{begin}:{end}", []),
        "one test, all sessions": (f"{first}:{end}", ["-n", "Made %size=0$"]),
        "all cases": (f"{first}:{end}", []),
    }
    for what, (period, names) in queries.items():
        query = f"--list-stored-testcases={period}/mean:/"
        timed(f"ReFrame: {what}", [*reframe, query, *names], limit)
    print(f"\nThe index has {index:.0f} MB.")


if __name__ == "__main__":
    sys.exit(main())
