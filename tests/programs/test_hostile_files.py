"""Files of others that are made to stop a command, or to take all memory: it refuses each of them.

No test measures how long that takes. The limit only ends a command that waits for ever.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certificates import DATA, Open, archive

from assay import files
from assay.archive import bundle
from assay.parse import reading
from assay.store import run_folder

#: How long a command may be silent [s], and what it may take [kB].
HANGS, MEMORY = 60, 500_000

#: Runs a command, then writes its exit code and the most memory that it had [kB].
CHILD = """
import re, sys
from assay.cli import main
try:
    code = main(sys.argv[2:])
except SystemExit as ended:
    code = ended.code
most = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
open(sys.argv[1], "w").write(f"{int(code)} {most}")
"""

LONG = 'a: "' + "x\n" * 8_000_000 + '"\n'
LIST = "- a\n" * 3_000_000
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)
)
ALIASES = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)
)
CIRCLE = "references: &a [*a]\n"
DEEP = "[" * 30_000
DEEP_JSON = DEEP * 10
ROWS = "# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n" + "1  1.00\n" * 6_000_000
MANY_VALUES = '{"session_info": {}, "runs": [' + "{}," * 8_000_000 + "{}]}"


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def zeros(_: Path) -> Path:
    return Path("/dev/zero")


def sparse(path: Path) -> Path:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    return path


# --- bundles --------------------------------------------------------------------------------------


def zipped(path: Path, *entries: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries:
            made.writestr(name, content)
    return path


def bomb(path: Path) -> Path:
    return zipped(path, (bundle.SUMS, b""), *((f"a{n}", b"\0" * (1 << 26)) for n in range(5)))


def directory(path: Path) -> Path:
    """An archive with half a million empty members, each the same as the first but by name."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as made:
        made.writestr("aaaaaa", b"")
    data = whole.getvalue()
    at = data.index(b"PK\1\2")
    entry, end = data[at : data.index(b"PK\5\6")], data[data.index(b"PK\5\6") :]
    entries = b"".join(entry.replace(b"aaaaaa", b"%06d" % n) for n in range(500_000))
    size = len(entries).to_bytes(4, "little")
    path.write_bytes(data[:at] + entries + end[:12] + size + end[16:])
    return path


def changed(ending: str, content: str) -> Callable[[Path], Path]:
    """An unsigned bundle whose hashes fit, with another content of one member."""

    def make(path: Path) -> Path:
        archive(path)
        found = Open(path)
        found.members[found.name(ending)] = content.encode()
        return found.pack(path)

    return make


# --- sessions and sites ---------------------------------------------------------------------------


def session(folder: Path) -> Path:
    shutil.copytree(DATA, folder)
    return folder / "results/reports/run-report-0.json"


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], Path]:
    """A session in which one file is hostile; returns its run report."""

    def edit(folder: Path) -> Path:
        report = session(folder)
        for path in [path for path in folder.rglob("*") if path.name == name]:
            path.unlink()
            make(path)
        return report

    return edit


def many_cases(folder: Path) -> Path:
    report = session(folder)
    said = json.loads(report.read_text())
    said["runs"][0]["testcases"] *= 1 + run_folder.MOST_CASES // len(said["runs"][0]["testcases"])
    report.write_text(json.dumps(said))
    return report


def long_path(folder: Path) -> Path:
    report = session(folder)
    report.write_text(report.read_text().replace("Hpl_retry5", "Hpl_retry5" * 600))
    return report


def number(folder: Path) -> Path:
    report = session(folder)
    said = json.loads(report.read_text())
    said["session_info"]["time_elapsed"] = 10**4000
    report.write_text(json.dumps(said))
    return report


def results(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    return lambda path: make(path).parents[1]


def site(content: str) -> Callable[[Path], Path]:
    """A folder of sites, one of which has such references."""

    def make(folder: Path) -> Path:
        (folder / "bench").mkdir(parents=True)
        here = {"name": "here", "scheduler": "local", "launcher": "local", "environs": ["any"]}
        system = {"name": "bench", "hostnames": [".*"], "partitions": [here]}
        its = {"systems": [system], "environments": [{"name": "any"}]}
        (folder / "bench/reframe.py").write_text(f"site_configuration = {its!r}\n")
        text(folder / "bench/references.yaml", content)
        return folder

    return make


def of(content: str) -> Callable[[Path], Path]:
    return lambda path: text(path, content)


#: The words of a command before and after the file -> what the file may be.
FILES: dict[tuple[str, ...], dict[str, Callable[[Path], Path]]] = {
    ("verify", "{}"): {
        "pipe": pipe,
        "device": zeros,
        "sparse": sparse,
        "bomb": bomb,
        "directory": directory,
        "unsigned merges": changed("bench/references.yaml", MERGES),
        "unsigned rows": changed("Hpl_retry5/rfm_job.out", ROWS),
    },
    ("verify", "--any-signer", "{}"): {
        "merges": changed("bench/references.yaml", MERGES),
        "aliases": changed("bench/references.yaml", ALIASES),
        "circle": changed("bench/references.yaml", CIRCLE),
        "lines": changed("bench/references.yaml", LONG),
        "list": changed("bench/references.yaml", LIST),
        "depth": changed("statement.json", DEEP_JSON),
        "values": changed("run-report-0.json", MANY_VALUES),
        "rows": changed("Hpl_retry5/rfm_job.out", ROWS),
    },
    ("parse", "{}"): {"pipe": pipe, "device": zeros, "sparse": sparse, "rows": of(ROWS)},
    ("judge", "{}"): {"pipe": pipe, "device": zeros, "rows": of(ROWS)},
    ("report", "--session", "{}"): {
        "pipe": pipe,
        "device": zeros,
        "depth": of(DEEP_JSON),
        "values": of(MANY_VALUES),
        "cases": many_cases,
        "number": number,
    },
    ("nodes", "--session", "{}"): {"pipe": pipe, "sparse": sparse, "depth": of(DEEP_JSON)},
    ("history", "add", "{}.history", "{}"): {
        "pipe": pipe,
        "bomb": bomb,
        "report": results(replaced("run-report-0.json", pipe)),
        "values": results(replaced("run-report-0.json", of(MANY_VALUES))),
    },
    ("calibrate", "--site", "bench", "--folder", "{}.sites", "--from", "{}"): {
        "pipe": pipe,
        "sparse": sparse,
        "depth": of(DEEP_JSON),
    },
    ("sites", "--folder", "{}"): {
        "merges": site(MERGES),
        "lines": site(LONG),
        "depth": site("references: " + DEEP),
    },
    ("check", "-C", "{}.yaml"): {
        "pipe": lambda path: pipe(path.with_suffix(".yaml")).with_suffix(""),
        "merges": lambda path: text(path.with_suffix(".yaml"), MERGES).with_suffix(""),
        "lines": lambda path: text(path.with_suffix(".yaml"), LONG).with_suffix(""),
    },
}
#: What is wrong with one file of a session, which the command reads all the same.
INSIDE = {
    "log": replaced("reframe.log", pipe),
    "record": replaced("assay.json", pipe),
    "plan": replaced("session.json", pipe),
    "deep plan": replaced("session.json", of(DEEP_JSON)),
    "values": replaced("assay.json", of(MANY_VALUES)),
    "path": long_path,
}


class Ended:
    """How a command ended that ran in a process of its own."""

    def __init__(self, folder: Path, words: list[str], stdin: Any = subprocess.DEVNULL) -> None:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, folder / "ended", *words],
            cwd=folder,
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        self.said = done.stdout + done.stderr
        assert "Traceback" not in self.said
        assert (folder / "ended").exists(), self.said
        self.code, memory = map(int, (folder / "ended").read_text().split())
        assert memory < MEMORY


#: Each command with each of its files; the short run takes a sixth of them.
CASES = [(words, what) for words, those in FILES.items() for what in those]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        case if number % 6 == 0 else pytest.param(*case, marks=pytest.mark.long)
        for number, case in enumerate(CASES)
    ],
)
def test_a_hostile_file_is_refused_in_one_line(tmp_path, words, what):
    site("references: []\n")(tmp_path / "file.sites")
    (tmp_path / "file.sites/tolerances.yaml").write_text("{}\n")
    path = FILES[words][what](tmp_path / "file")
    ended = Ended(tmp_path, [word.format(path) for word in words])
    assert ended.code in {1, 2, 5} or words[0] == "history"
    lines = [line for line in ended.said.splitlines() if str(path) in line]
    about = lines or [line for line in ended.said.splitlines() if "REFUSED" in line]
    assert about, ended.said
    # A table has a head and a sum; rows that are not read leave metrics without their output.
    assert len(ended.said.splitlines()) <= (4 if "rows" in what else 3), ended.said


@pytest.mark.parametrize("what", INSIDE)
def test_a_hostile_file_of_a_session_is_no_evidence(tmp_path, what):
    path = INSIDE[what](tmp_path / "session")
    ended = Ended(tmp_path, ["nodes", "--session", str(path)])
    assert ended.code in {1, 3, 4} or what == "log"


def test_standard_input_that_never_ends(tmp_path):
    with Path("/dev/zero").open() as stream:
        ended = Ended(tmp_path, ["parse", "-"], stream)
    assert f"has more than {reading.MOST} B" in ended.said


def test_the_limits_leave_room_for_what_a_run_writes():
    """Ten times the largest YAML of the suite, and a run report of 10,000 cases."""
    of_suite = [*files.SUITE.glob("site-config/*/*.yaml"), *files.SUITE.glob("src/**/*.yaml")]
    largest = max(of_suite, key=lambda path: path.stat().st_size).read_text()
    assert 10 * len(largest) < files.MOST_OF_YAML
    assert 10 * largest.count("\n") < files.MOST_LINES
    report = (DATA / "results/reports/run-report-0.json").read_text()
    share = 10_000 / len(json.loads(report)["runs"][0]["testcases"])
    assert share * len(report) < files.MOST_OF_JSON
    assert share * sum(map(report.count, ",[{")) < files.MOST_VALUES
