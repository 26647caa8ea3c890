#!/usr/bin/env python3
"""Recorded runs between GPUs: record them, compare two folders, write the page.

    gpu_records.py record FOLDER [--real]   runs between emulated GPUs, or the real ones here
    gpu_records.py osu FOLDER               runs of OSU of the stack that GPUEMU_STACK names
    gpu_records.py compare FOLDER FOLDER    where the lanes and tables of UCX differ
    gpu_records.py page                     writes runs.csv, and its sums into docs/vgpu.md

A folder has VERSION/OPERATION.SIZE.GPUS.CONFIGURATION.FAULT.txt, the logs of both processes of a
run, and bytes.jsonl: file, date, GPUs, the verdict, and for emulated GPUs the bytes by way.
lab/vgpu/on-hardware.sh calls this file with any Python from 3.9 on, without .venv.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import difflib
import io
import itertools
import json
import re
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gpu_runs
from gpu_runs import ROOT, Gpus, Run, ways

from assay.parse import ucx_log
from assay.prove.transports import Proof

EMULATED, REAL = ROOT / "tests/data/vgpu", ROOT / "tests/data/gpu"
PAGE, TABLE = ROOT / "docs/vgpu.md", EMULATED / "runs.csv"
NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}
SIZES = (
    ("tag_lat", 8, 20), ("tag_lat", 1 << 16, 20), ("tag_lat", 1 << 20, 4),
    ("tag_bw", 1 << 20, 4), ("tag_bw", 16 << 20, 4),
)  # fmt: skip
#: The wheels have no gdrcopy.
CONFIGURATIONS = ("no-gdrcopy", "no-ipc-no-gdrcopy")

HEAD = (
    "program", "configuration", "ucx", "fault", "emulated_gpu", "real_gpu",
    "runs", "by_ipc", "by_gdrcopy", "red", "judged", "agree", "proof",
)  # fmt: skip
NUMBERED = HEAD[6:12]
#: The columns of the sums on the page.
SUMS = (
    "program", "runs", "by CUDA IPC", "by gdrcopy", "red", "agree with the trace", "real GPU",
)  # fmt: skip


class Refusal(Exception):
    """One line for the user: what is wrong, and what to do."""


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """File -> its row in ``bytes.jsonl``; none if there is no such folder."""
    file = folder / "bytes.jsonl"
    found = map(json.loads, file.read_text().splitlines() if file.exists() else ())
    return {row["file"]: row for row in found}


def kept(folder: Path) -> list[str]:
    """The recorded runs whose log is in the folder."""
    return [file for file in rows(folder) if (folder / file).exists()]


def run_of(file: str) -> Run:
    """The run that a file was recorded from. Its number of iterations is not known."""
    version, name = file.split("/")
    operation, size, gpus, configuration, fault, _ = name.split(".")
    number = next(number for number, word in NUMBERS.items() if word == gpus)
    return Run(version, operation, int(size), 0, number, configuration, fault)


def file_of(run: Run) -> str:
    words = (run.operation, run.size, NUMBERS[run.gpus], run.configuration, run.fault, "txt")
    return f"{run.version}/{'.'.join(map(str, words))}"


def took(row: dict[str, Any]) -> set[str]:
    """The ways of the bytes: what the programs did, not what they said."""
    return ways(row["bytes"])


def prove(folder: Path, file: str) -> Proof:
    """The verdict of the suite on a recorded run."""
    run, log = run_of(file), ucx_log.parse_ucx_log((folder / file).read_text())
    return gpu_runs.prove(run, log)


def judged(file: str) -> bool:
    """Whether the suite judges the way of the bytes of a run."""
    return gpu_runs.judged(run_of(file))


def lacking(file: str) -> bool:
    """Whether the fault of a run takes a transport away that its configuration names."""
    run = run_of(file)
    return gpu_runs.lacks(run.configuration, run.fault)


def healthy(file: str) -> str:
    """The file of the healthy run of the same combination."""
    return file_of(run_of(file)._replace(fault="healthy"))


# --- the table -----------------------------------------------------------------------------------


def table(folder: Path = EMULATED, real: Path = REAL) -> list[dict[str, str]]:
    """The runs of a folder by program, configuration, UCX and fault; the columns of `HEAD`."""
    recorded, on_real = rows(folder), rows(real)
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in recorded:
        groups.setdefault(_group(file), []).append(file)
    lines = []
    for group, files in sorted(groups.items()):
        said = {file: recorded[file]["proof"] for file in files}
        took_of = {file: took(recorded[file]) for file in files}
        agree = sum(
            gpu_runs.agrees(said[file], took_of[file], took(recorded[healthy(file)]), lacking(file))
            for file in filter(judged, files)
        )
        numbers = (
            len(files),
            sum(any("ipc" in way for way in ways) for ways in took_of.values()),
            sum("gdr to" in ways for ways in took_of.values()),
            [*said.values()].count(gpu_runs.RED),
            sum(map(judged, files)),
            agree,
        )
        day = _latest(recorded[file] for file in files)
        on = _latest(row for file, row in on_real.items() if _group(file) == group) or "no"
        means = sorted({*said.values()} - {gpu_runs.RED})
        cells = (*group, day, on, *map(str, numbers), ", ".join(means))
        lines.append(dict(zip(HEAD, cells)))
    return lines


def written(lines: Iterable[dict[str, str]]) -> str:
    """The text of `runs.csv`."""
    out = io.StringIO()
    writer = csv.DictWriter(out, HEAD, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def sums(lines: Iterable[dict[str, str]]) -> str:
    """The sums of a table by kind of program, as a table of Markdown."""
    kinds: dict[str, Counter[str]] = {}
    days: dict[str, str] = {}
    for line in lines:
        for kind in (_kind(line["program"]), "all"):
            counter = kinds.setdefault(kind, Counter())
            counter.update({name: int(line[name]) for name in NUMBERED})
            if line["real_gpu"] != "no":
                days[kind] = max(days.get(kind, ""), line["real_gpu"])
    shown = [list(SUMS), ["---"] * len(SUMS)]
    for kind, of in sorted(kinds.items(), key=lambda each: (each[0] == "all", each[0])):
        numbers = [str(of[name]) for name in ("runs", "by_ipc", "by_gdrcopy", "red")]
        shown.append([kind, *numbers, f"{of['agree']} of {of['judged']}", days.get(kind, "no")])
    return "\n".join(f"| {' | '.join(line)} |" for line in shown) + "\n"


def _kind(program: str) -> str:
    if program == "ucx_perftest":
        return program
    return "OSU, between two buffers" if "-" in program else "OSU, collectives"


def _group(file: str) -> tuple[str, ...]:
    run = run_of(file)
    program = "ucx_perftest" if run.operation in gpu_runs.SENT else run.operation
    return program, run.configuration, run.version, run.fault


def _latest(of: Iterable[dict[str, Any]]) -> str:
    return max((row["date"] for row in of), default="")


def page(text: str, lines: Iterable[dict[str, str]]) -> str:
    """The page with the sums of a table.

    :raises Refusal: the page has no such sums.
    """
    begin = text.find(f"| {' | '.join(SUMS)} |\n")
    if begin < 0:
        raise Refusal(f"{PAGE}: no table that begins with the columns {', '.join(SUMS)}")
    end = text.find("\n\n", begin)
    return text[:begin] + sums(lines) + text[end + 1 :]


# --- recording -----------------------------------------------------------------------------------


def real_gpus() -> tuple[Gpus, int]:
    """The GPUs of this machine by nvidia-smi, and how many a run may use.

    :raises Refusal: there is no GPU, or it is an emulated one.
    """
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise Refusal(f"nvidia-smi names no GPU of this machine: {error}") from None
    names = done.stdout.splitlines()
    if not names or "EMULATED" in done.stdout:
        raise Refusal("nvidia-smi names no real GPU; without --real, emulated ones are recorded")
    return Gpus(names[0], gpu_runs.EMULATED.ucx / "real"), min(len(names), 2)


def plan(gpus: Gpus, number: int) -> list[Run]:
    """The healthy runs of every version that is installed, on one GPU and, where there are, two."""
    return [
        Run(version, *size, each, configuration, "healthy")
        for version in gpu_runs.VERSIONS
        if (gpus.ucx / version / "pin.txt").exists()
        for size, each, configuration in itertools.product(
            SIZES, range(1, number + 1), CONFIGURATIONS
        )
    ]


def record(folder: Path, gpus: Gpus, runs: Sequence[Run]) -> Iterator[str]:
    """Makes the runs and writes them to a new folder; yields a line for each.

    :raises Refusal: there is nothing to run, or the folder exists.
    """
    if not runs:
        raise Refusal(f"no UCX in {gpus.ucx}: type lab/vgpu/ucx.sh, with --real for a real GPU")
    if folder.exists():
        raise Refusal(f"{folder} exists: name a folder that does not")
    day = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    for run in runs:
        file = file_of(run)
        with tempfile.TemporaryDirectory() as scratch:
            try:
                text, carried = gpu_runs.do(run, Path(scratch), gpus)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                yield f"{file}: FAILED: {error}"
                continue
        text = re.sub(r"/\S+(?=/lib\S*/libuc[mpst])", "/opt/ucx", text)
        text = re.sub(rf"\[{re.escape(socket.gethostname())}:", "[node:", text)
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
        proof = prove(folder, file)
        row = {"file": file, "date": day, "gpu": gpus.name, "proof": gpu_runs.verdict(proof)}
        with (folder / "bytes.jsonl").open("a") as out:
            out.write(json.dumps({**row, **({"bytes": carried} if gpus.driver else {})}) + "\n")
        yield f"{file}: {'; '.join(proof.problems) or proof.means}"


# --- comparing -----------------------------------------------------------------------------------


def paths(text: str) -> list[str]:
    """What a log says of the data path between processes: one line for each lane and each row.

    Sizes at which UCX changes its way are part of it; counts are not, only whether there are any.
    """
    log = ucx_log.parse_ucx_log(text)
    lines = {f"lanes: {' '.join(config.lanes)}" for config in log.peer_configs()}
    for each in log.peer_tables(""):
        variant = f" ({each.variant})" if each.variant else ""
        for row in each.rows:
            lanes = ", ".join(f"{share:.0%} {lane}" for lane, share in row.lanes.items())
            plan = "(?) " * row.estimate
            used = "" if row.count is None else ", used" if row.count else ", not used"
            lines.add(
                f"{each.kind}{variant} from {each.memory}: {row.first}..{row.last}: "
                f"{plan}{row.description}: {lanes}{used}"
            )
    return sorted(lines)


def compare(first: Path, second: Path) -> Iterator[str]:
    """The differences of the runs that both folders have, and the runs that one of them lacks."""
    for file in sorted({*rows(first), *rows(second)}):
        there = [folder for folder in (first, second) if (folder / file).exists()]
        if not there:
            continue  # tests/data/vgpu keeps the logs of some of its runs
        if len(there) == 1:
            yield f"{file}: only in {there[0]}"
            continue
        said = [paths((folder / file).read_text()) for folder in there]
        changed = difflib.unified_diff(*said, str(first), str(second), n=0, lineterm="")
        lines = [line for line in changed if line[0] in "+-" and line[:3] not in ("---", "+++")]
        if lines:
            yield "\n    ".join([f"{file}: - {first}, + {second}", *lines])


def _record(options: argparse.Namespace) -> int:
    gpus, number = real_gpus() if options.real else (gpu_runs.EMULATED, 2)
    failed = 0
    for line in record(options.folder, gpus, plan(gpus, number)):
        print(line, flush=True)
        failed += ": FAILED: " in line
    return 1 if failed else 0


def _osu(options: argparse.Namespace) -> int:
    runs = gpu_runs.osu_of_stack()
    if not runs:
        raise Refusal("GPUEMU_STACK names no prefix with OSU, Open MPI and UCX")
    failed = 0
    for line in record(options.folder, gpu_runs.EMULATED, runs):
        print(line, flush=True)
        failed += ": FAILED: " in line
    return 1 if failed else 0


def _compare(options: argparse.Namespace) -> int:
    for folder in (options.folder, options.other):
        if not rows(folder):
            raise Refusal(f"{folder} has no bytes.jsonl: no runs were recorded there")
    differences = list(compare(options.folder, options.other))
    print(*differences, f"{len(differences)} runs differ", sep="\n")
    return 1 if differences else 0


def _page(_: argparse.Namespace) -> int:
    lines = table()
    TABLE.write_text(written(lines))
    PAGE.write_text(page(PAGE.read_text(), lines))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1: a run failed, or the folders differ. 2: nothing was done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, function, folders in (
        ("record", _record, ["folder"]), ("osu", _osu, ["folder"]),
        ("compare", _compare, ["folder", "other"]), ("page", _page, []),
    ):  # fmt: skip
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        for folder in folders:
            command.add_argument(folder, type=Path)
        if name == "record":
            command.add_argument("--real", action="store_true")
    options = parser.parse_args(arguments)
    try:
        return options.function(options)
    except Refusal as refusal:
        print(f"gpu_records: {refusal}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
