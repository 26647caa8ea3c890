"""The patches in lab/upstream/: what ReFrame does wrong without each of them, and right with it.

A newer ReFrame that no longer does it wrong makes the first test red. Its patch then goes.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import reframe
import shell
from bench import live_program
from shell import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: The version that the patches are for.
FOR = "4.10.4"

PATCHES = sorted((ROOT / "lab/upstream").glob("*.patch"))

#: Patch -> those that come before it and that it needs.
NEEDS = {"0002": ["0001"]}

COMMAND = "from reframe.frontend.cli import main; main()"

SETTINGS = """\
site_configuration = {{
    "systems": [{{
        "name": "here",
        "hostnames": [".*"],
        "partitions": [{{
            "name": "nodes",
            "scheduler": "{scheduler}",
            "launcher": "local",
            "environs": ["builtin"],
            "sched_options": {{
                "job_submit_timeout": 1,
                "max_sacct_failures": 1,
                "slurm_pending_job_reason_poll_freq": 1,
            }},
        }}],
    }}],
}}
"""

#: What does not hang may take as long as it needs on a busy machine. What hangs would be waited for
#: without end if there is no limit: then this says so, instead of waiting.
BOUNDED = """
import os
import subprocess

communicate = subprocess.Popen.communicate


def bounded(self, input=None, timeout=None):
    if {hangs!r} not in str(self.args):
        return communicate(self, input)
    if timeout is None and self.poll() is None:
        self.kill()
        self.wait()
        print("waits for ever for {hangs}", flush=True)
        os._exit(9)
    return communicate(self, input, timeout)


subprocess.Popen.communicate = bounded
"""

OWN = """\
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, sanity_function
from reframe.core.runtime import runtime


class Own(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
    passes_in_run = 0

    @sanity_function
    def ended(self):
        return sn.assert_true(runtime().current_run >= self.passes_in_run, "too slow")


@rfm.simple_test
class Good(Own):
    pass
"""

NEVER = """

@rfm.simple_test
class Skipped(Own):
    @run_after("setup")
    def leave(self):
        self.skip("not on Thursdays")
"""

RETRIED = """

@rfm.simple_test
class Flaky(Own):
    passes_in_run = 1


@rfm.simple_test
class Bad(Own):
    passes_in_run = 9


@rfm.simple_test
class AfterBad(Own):
    @run_after("init")
    def after(self):
        self.depends_on("Bad")
"""

AFTER_GOOD = """

@rfm.simple_test
class Late(Own):
    passes_in_run = 2


@rfm.simple_test
class AfterGood(Own):
    passes_in_run = 9

    @run_after("init")
    def after(self):
        self.depends_on("Good")
"""

WARNS = """

@rfm.simple_test
class Warns(Own):
    @performance_function("MB/s")
    def rate(self):
        return 1 / 0
"""

ABORTED = """

@rfm.simple_test
class Interrupted(Own):
    @run_after("setup")
    def interrupt(self):
        raise KeyboardInterrupt
"""

#: The programs of Slurm. The job is pending when sacct is asked first, and has ended after that.
SLURM = {
    "sbatch": "touch rfm_job.out rfm_job.err; echo Submitted batch job 1",
    "sacct": (
        "state=COMPLETED; [ -e asked ] || state=PENDING; touch asked\n"
        'echo "1|$state|0:0|1|node[01-02]"'
    ),
    "squeue": "echo '1|None'",
    "scontrol": "echo node01; echo node02",
    "scancel": "exit 0",
}


@dataclass(frozen=True)
class Done:
    """What a run of ReFrame left.

    :ivar cases: the test cases of each run, by name.
    :ivar junit: the test cases of the JUnit file in their order: name, element below it, message.
    :ivar counts: the counts of each test suite.
    """

    code: int
    said: str
    cases: list[dict[str, dict[str, Any]]]
    junit: list[tuple[str, str, str]]
    counts: list[dict[str, str]]


@dataclass(frozen=True)
class Reframe:
    """A ReFrame that runs tests in a folder.

    :ivar package: the folder with a patched package; None for the installed ReFrame.
    """

    folder: Path
    package: Path | None

    def run(
        self, tests: str, *arguments: str, scheduler: str = "local", hangs: str = "nothing"
    ) -> Done:
        folder, fakes = self.folder, self.folder / "bin"
        settings = SETTINGS.format(scheduler=scheduler)
        for name, body in SLURM.items():
            shell.program(fakes, name, "exec sleep 1000" if name == hangs else body)
        if scheduler != "local":
            settings += BOUNDED.format(hangs=hangs)
        (folder / "settings.py").write_text(settings)
        (folder / "tests.py").write_text(OWN + tests)
        path = {"PYTHONPATH": self.package} if self.package else {}
        ran = shell.run(
            *(sys.executable, "-c", COMMAND, "-C", "settings.py", "-c", "tests.py", "-r"),
            *("--report-file=report.json", "--report-junit=junit.xml", "--nocolor", *arguments),
            cwd=folder,
            PATH=f"{fakes}:/usr/bin:/bin",
            HOME=folder,
            **path,
        )
        cases, suites = [], []
        if (folder / "report.json").exists():
            runs = json.loads((folder / "report.json").read_text())["runs"]
            cases = [{case["name"]: case for case in each["testcases"]} for each in runs]
            suites = list(Xml.parse(folder / "junit.xml").iter("testsuite"))
        return Done(ran.returncode, ran.stdout, cases, _cases(suites), _counts(suites))


def _cases(suites: list[Xml.Element]) -> list[tuple[str, str, str]]:
    ends = [
        (case.attrib["name"].split()[0], case[0] if len(case) else Xml.Element(""))
        for suite in suites
        for case in suite.iter("testcase")
    ]
    return sorted((name, end.tag, end.get("message", "")) for name, end in ends)


def _counts(suites: list[Xml.Element]) -> list[dict[str, str]]:
    words = ("tests", "failures", "errors", "skipped")
    return [{word: suite.get(word, "none") for word in words} for suite in suites]


def reasons(rfm: Reframe) -> Any:
    done = rfm.run(NEVER)
    assert done.code == 0, done.said
    (cases,) = done.cases
    return {name: case.get("skip_reason", "no field") for name, case in cases.items()}


def retried(rfm: Reframe) -> Any:
    done = rfm.run(NEVER + RETRIED, "--max-retries=1")
    assert done.code == 1, done.said
    return done.junit, done.counts


def repeated(rfm: Reframe) -> Any:
    """Each run of --reruns counts for the exit code, so no patch may hide one."""
    done = rfm.run(RETRIED, "--reruns=1", "-n", "Flaky")
    assert done.code == 1, done.said
    return done.junit


def aborted(rfm: Reframe) -> Any:
    done = rfm.run(ABORTED, "-n", "Interrupted")
    assert done.code == 1, done.said
    return done.junit


def warned(rfm: Reframe) -> Any:
    done = rfm.run(WARNS, "--warn-as-error")
    (cases,) = done.cases
    assert "skipping evaluation of performance variable 'rate'" in done.said
    return done.code, cases["Warns"]["fail_phase"], cases["Warns"]["result"]


def hanging(scheduler: str, hangs: str, *causes: str) -> Callable[[Reframe], Any]:
    """A run with a program of Slurm that hangs: its exit code, and what it says of that."""

    def seen(rfm: Reframe) -> Any:
        done = rfm.run("", scheduler=scheduler, hangs=hangs)
        said = [cause for cause in (f"waits for ever for {hangs}", *causes) if cause in done.said]
        nodes = [case["job_nodelist"] for cases in done.cases[:1] for case in cases.values()]
        return done.code, said, nodes

    return seen


def dependent(rfm: Reframe) -> Any:
    done = rfm.run(AFTER_GOOD, "--max-retries=2")
    return done.code, [sorted(cases) for cases in done.cases]


SKIPPED = ("Skipped", "skipped", "not on Thursdays")
TIMED_OUT = "timed out after 1s"


@dataclass(frozen=True)
class Fault:
    """Something that ReFrame does wrong, and that a patch mends.

    :ivar seen: what a ReFrame does.
    """

    patch: str
    seen: Callable[[Reframe], Any]
    wrong: Any
    right: Any


FAULTS = {
    "the reason of a skip": Fault(
        "0001",
        reasons,
        {"Good": "no field", "Skipped": "no field"},
        {"Good": None, "Skipped": "not on Thursdays"},
    ),
    "retries and skips in JUnit": Fault(
        "0002",
        retried,
        (
            [
                *[("AfterBad", "", ""), ("AfterBad", "", "")],
                *[("Bad", "failure", "sanity"), ("Bad", "failure", "sanity")],
                *[("Flaky", "", ""), ("Flaky", "failure", "sanity")],
                *[("Good", "", ""), ("Skipped", "", "")],
            ],
            [
                {"tests": "5", "failures": "2", "errors": "0", "skipped": "none"},
                {"tests": "3", "failures": "1", "errors": "0", "skipped": "none"},
            ],
        ),
        (
            [
                ("AfterBad", "skipped", "dependencies failed"),
                *[("Bad", "failure", "sanity"), ("Flaky", "", ""), ("Good", "", ""), SKIPPED],
            ],
            [
                {"tests": "2", "failures": "0", "errors": "0", "skipped": "1"},
                {"tests": "3", "failures": "1", "errors": "0", "skipped": "1"},
            ],
        ),
    ),
    "an aborted case in JUnit": Fault(
        "0002",
        aborted,
        [("Interrupted", "", "")],
        [("Interrupted", "error", "aborted due to KeyboardInterrupt")],
    ),
    "a warning in a test": Fault("0003", warned, (0, None, "pass"), (1, "performance", "fail")),
    "a silent sacct": Fault(
        "0004",
        hanging("slurm", "sacct", "sacct failed (1/1)", TIMED_OUT),
        (9, ["waits for ever for sacct"], []),
        (1, ["sacct failed (1/1)", TIMED_OUT], [[]]),
    ),
    "a silent squeue": Fault(
        "0004",
        hanging("squeue", "squeue", "squeue timed out (1/1)", TIMED_OUT),
        (9, ["waits for ever for squeue"], []),
        (1, ["squeue timed out (1/1)", TIMED_OUT], [[]]),
    ),
    "a squeue that is silent about the reason": Fault(
        "0004",
        hanging("slurm", "squeue", "squeue timed out (1/1)", TIMED_OUT),
        (9, ["waits for ever for squeue"], []),
        (0, ["squeue timed out (1/1)", TIMED_OUT], [["node01", "node02"]]),
    ),
    "a silent scontrol": Fault(
        "0004",
        hanging("slurm", "scontrol"),
        (9, ["waits for ever for scontrol"], []),
        (0, [], [[]]),
    ),
    "a dependency in the second retry": Fault(
        "0005",
        dependent,
        (0, [["AfterGood", "Good", "Late"], ["AfterGood", "Late"], ["Late"]]),
        (1, [["AfterGood", "Good", "Late"], ["AfterGood", "Late"], ["AfterGood", "Late"]]),
    ),
}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


@pytest.mark.parametrize("name", FAULTS)
def test_reframe_needs_the_patch(tmp_path: Path, name: str) -> None:
    if _numbers(reframe.VERSION) < _numbers(FOR):
        pytest.skip(f"the patches are for ReFrame {FOR}, this is {reframe.VERSION}")
    fault = FAULTS[name]
    assert fault.seen(Reframe(tmp_path, None)) == fault.wrong, (
        f"ReFrame {reframe.VERSION} may have mended it: see whether {fault.patch} can go"
    )


@pytest.fixture
def patched(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a copy of the installed ReFrame with a patch."""
    program = live_program("patch")
    if reframe.VERSION != FOR:
        pytest.skip(f"the patches are for ReFrame {FOR}, this is {reframe.VERSION}")

    def made(number: str) -> Path:
        package = tmp_path / "package"
        shutil.copytree(Path(reframe.__file__).parent, package / "reframe")
        for each in [*NEEDS.get(number, []), number]:
            (file,) = (ROOT / "lab/upstream").glob(f"{each}-*.patch")
            done = shell.run(program, "-p1", "--fuzz=0", "-i", file, cwd=package)
            assert done.returncode == 0, done.stdout
        return package

    return made


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder beside the patched copy: ReFrame takes files in its own folder for its own."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", FAULTS)
def test_the_patch_mends_it(workplace: Path, patched: Callable[[str], Path], name: str) -> None:
    fault = FAULTS[name]
    assert fault.seen(Reframe(workplace, patched(fault.patch))) == fault.right


def test_no_patch_hides_a_failure_of_reruns(
    workplace: Path, patched: Callable[[str], Path]
) -> None:
    seen = repeated(Reframe(workplace, patched("0002")))
    assert seen == [("Flaky", "", ""), ("Flaky", "failure", "sanity")]


def test_the_patches_apply_in_their_order(tmp_path: Path, patched: Callable[[str], Path]) -> None:
    first, *others = PATCHES
    package = patched(first.name[:4])
    for file in others:
        done = shell.run("patch", "-p1", "-i", file, cwd=package)
        assert done.returncode == 0, done.stdout


def test_each_patch_has_a_fault_and_is_in_the_table() -> None:
    assert {fault.patch for fault in FAULTS.values()} == {file.name[:4] for file in PATCHES}
    table = (ROOT / "lab/upstream/README.md").read_text()
    assert re.findall(r"^\| `(.+?\.patch)` \|", table, re.M) == [file.name for file in PATCHES]
