"""How long `assay history` takes, and how much memory.

    .venv/bin/python tests/history_size.py --cases 1000000 [--keep DIR]

The script makes a history with sessions of 1,000 cases, each with two metrics, and times each
command in a process of its own. The cases are made: their numbers are noise of 1 %, and one metric
drops by 6 % half-way.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from assay.archive.history import store
from assay.judge import Verdict
from assay.store.cases import Case, Session
from assay.store.record import Metric

ROOT = Path(__file__).resolve().parents[1]
PER_SESSION, NODES = 1000, 4
PARTITIONS = ("intra-node", "inter-node")
FIRST = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


def session(number: int, rng: random.Random, half: int) -> Session:
    """A made session; the first metric drops from the session `half` on."""
    cases = []
    for case in range(PER_SESSION):
        name = f"Made %size={case // 2}"
        rate = 100.0 * rng.gauss(1, 0.01) * (0.94 if case == 0 and number >= half else 1)
        metrics = (
            Metric("bandwidth", rate, "MB/s", Verdict.PASS),
            Metric("latency", rng.gauss(1, 0.01), "us", Verdict.PASS),
        )
        nodes = (f"node{rng.randrange(NODES):02}",)
        cases.append(
            Case("Made", name, name, "made", PARTITIONS[case % 2], "mpi", Verdict.PASS,
                 metrics=metrics, nodes=nodes)
        )  # fmt: skip
    start = FIRST + datetime.timedelta(days=number)
    name = str(uuid.UUID(int=rng.getrandbits(128)))
    return Session(Path("made"), name, "made", start, 1.0, "made", "4.10", tuple(cases))


def make(folder: Path, count: int) -> None:
    """Write a history with so many sessions."""
    rng = random.Random(1)
    with store.open_history(folder, create=True) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for number in range(count):
            store.insert(connection, session(number, rng, count // 2))


def timed(what: str, command: list[str], limit: float) -> None:
    """Run a command and print a line of the table: seconds, seconds of processor time, MiB."""
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
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
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="make the history here, and keep it"
    )
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
    history = folder / "history"
    if not history.exists():
        began = time.process_time()
        make(history, sessions)
        print(f"{time.process_time() - began:.0f} s of processor time to insert")
    size = (history / store.FILE).stat().st_size / 1e6
    print(f"{sessions * PER_SESSION} cases in {sessions} sessions, {size:.0f} MB\n")
    print("| command | wall [s] | processor [s] | largest memory [MiB] | answer |")
    print("|---|---|---|---|---|")
    assay = [sys.executable, "-m", "assay", "history"]
    at = str(history)
    results = ROOT / "tests/data/certificate/results"
    timed("`show`", [*assay, "show", at], limit)
    timed("`show --last 2`", [*assay, "show", at, "--last", "2"], limit)
    timed("`add` of 35 cases", [*assay, "add", at, str(results)], limit)
    timed("`changes`", [*assay, "changes", at], limit)
    timed("`show --page`", [*assay, "show", at, "--page", str(folder / "history.html")], limit)


if __name__ == "__main__":
    sys.exit(main())
