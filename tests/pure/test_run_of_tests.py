"""Selection, skipping and running of tests: conftest.py, in a suite made by a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import remaining
import shell
import skips

TESTS = Path(__file__).resolve().parents[1]

ALLOWED = """\
- {reason: needs a GPU.*, tiers: [programs], why: hardware}
- {reason: needs slurmctld, tiers: [clusters], why: packages, run: make test-all}
"""

MARKERS = "[pytest]\npythonpath = tests\nmarkers =\n  pure\n  programs\n  clusters\n  long\n"


class Report(NamedTuple):
    """What pytest says of a phase of a test."""

    nodeid: str
    when: str
    duration: float


class Suite:
    """The tests of a test, below `folder`. A separate pytest runs them."""

    def __init__(self, folder: Path) -> None:
        self.tests = folder / "tests"
        for name in ("pure", "programs", "clusters", "data"):
            (self.tests / name).mkdir(parents=True)
        for name in ("skips.py", "short.py", "together.py", "remaining.py"):
            (self.tests / name).write_text((TESTS / name).read_text())
        (folder / "conftest.py").write_text((TESTS.parent / "conftest.py").read_text())
        (self.tests / "skips.yaml").write_text(ALLOWED)
        (folder / "pytest.ini").write_text(MARKERS)

    def add(self, tier: str, source: str, name: str = "") -> None:
        file = self.tests / tier / f"test_{name or tier}.py"
        file.write_text(f"import pytest\n\n{source}")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
        return shell.run(*words, *arguments, "tests", cwd=self.tests.parent)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


#: Every kind of skip, in each tier in which it matters.
SKIPS = """\
@pytest.mark.parametrize("reason", {reasons})
def test_that_is_skipped(reason):
    pytest.skip(reason)

@pytest.mark.xfail
def test_that_is_expected_to_fail():
    assert False
"""


def test_skips_that_are_listed_are_green_and_counted_with_their_reason(suite):
    suite.add("programs", SKIPS.format(reasons=["needs a GPU of NVIDIA"]))
    suite.add("clusters", SKIPS.format(reasons=["needs slurmctld"]))
    done = suite.run()
    assert done.returncode == 0, done.stdout
    assert "   1 programs: needs a GPU of NVIDIA (hardware)\n" in done.stdout
    assert "   1 clusters: needs slurmctld (packages; make test-all runs it)\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 skipped, 2 xfailed")


def test_any_other_skip_is_red_and_named(suite):
    reasons = ["needs a moon", "needs slurmctld", "no, it needs a GPU", "needs a GPU"]
    suite.add("programs", SKIPS.format(reasons=reasons))
    suite.add("pure", "pytest.importorskip('no_such_module')\n")
    done = suite.run("-n", "2")
    assert done.returncode == 1, done.stdout
    named = [line for line in done.stdout.splitlines() if line.startswith("NOT ALLOWED")]
    assert named == [
        "NOT ALLOWED 1 programs: needs a moon",
        "NOT ALLOWED 1 programs: needs slurmctld",  # listed for another tier
        "NOT ALLOWED 1 programs: no, it needs a GPU",  # the whole reason has to match
        "NOT ALLOWED 1 pure: could not import 'no_such_module': No module named 'no_such_module'",
    ]
    assert "tests/skips.yaml does not allow" in done.stdout


def test_where_all_is_installed_a_skip_that_a_command_mends_is_red(suite):
    suite.add("programs", SKIPS.format(reasons=["needs a GPU"]))
    assert suite.run("--complete").returncode == 0
    suite.add("clusters", SKIPS.format(reasons=["needs slurmctld"]))
    done = suite.run("--complete")
    assert done.returncode == 1, done.stdout
    assert "NOT ALLOWED 1 clusters: needs slurmctld" in done.stdout


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{reason: x, tiers: [programs]}", "entry 1: 'why'"),
        (
            "{reason: x, tier: [programs], why: y}",
            "entry 1: no key: tier; say reason, tiers,",
        ),
        ("{reason: x, tiers: [pure], why: y, mend: z}", "entry 1: no key: mend; say reason, tiers"),
        ("{reason: x, tiers: [moon], why: y}", "entry 1: no tier: moon; say pure, programs,"),
        ("{reason: '(', tiers: [pure], why: y}", "entry 1: missing ), unterminated"),
    ],
)
def test_a_bad_entry_is_one_line(tmp_path, entry, said):
    (tmp_path / "skips.yaml").write_text(f"- {entry}\n")
    with pytest.raises(pytest.UsageError) as caught:
        skips.load(tmp_path / "skips.yaml")
    assert str(caught.value).startswith(f"skips.yaml: {said}")
    assert "\n" not in str(caught.value)


def test_a_short_run_lists_what_it_left_out(suite):
    suite.add("clusters", "def test_of_clusters():\n    assert False\n")
    slow = "@pytest.mark.long\ndef test_long():\n    assert False\n\ndef test_short(short):\n"
    suite.add("programs", f"{slow}    assert short\n")
    done = suite.run("--short", "-n", "2")
    assert done.returncode == 0, done.stdout
    assert "left out; make test-all runs it" in done.stdout
    assert "   1 tests (clusters, images, Spack): test_clusters.py 1" in done.stdout
    assert "   1 tests (long): test_programs.py 1" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed")


STARTS = """\
import os, subprocess, sys

@pytest.mark.parametrize("start", ["subprocess.run(['true'])", "os.system('true')",
                                   "subprocess.run('true', shell=True)"])
def test_that_starts_a_program(start):
    eval(start)

def test_that_starts_python():
    subprocess.run([sys.executable, "-c", ""], check=True)
"""


def test_what_is_pure_starts_nothing_but_python(suite):
    suite.add("pure", STARTS)
    suite.add("programs", STARTS)
    done = suite.run()
    assert done.stdout.splitlines()[-1].startswith("3 failed, 5 passed"), done.stdout
    assert "a test in a folder pure starts nothing but Python, and not true" in done.stdout
    assert "FAILED tests/programs" not in done.stdout
    assert suite.run("-m", "programs").returncode == 0  # a tier is a marker


#: Records on which worker each test ran.
RECORDED = """\
import os
from pathlib import Path

@pytest.fixture(autouse=True)
def recorded(request):
    file = Path(__file__).parents[1] / f"{request.node.name}.worker"
    file.write_text(os.environ["PYTEST_XDIST_WORKER"])

@pytest.mark.parametrize("n", range(12))
def test_NAME(n):
    pass
"""


def test_what_shares_a_measurement_is_on_one_worker(suite):
    suite.add("programs", RECORDED.replace("NAME", "beside"))
    suite.add("programs", RECORDED.replace("NAME", "together"), "fault_matrix")
    done = suite.run("-n", "3")
    assert done.returncode == 0, done.stdout

    def workers(what):
        return [file.read_text() for file in suite.tests.glob(f"test_{what}*.worker")]

    assert len(workers("together")) == len(workers("beside")) == 12
    assert len(set(workers("together"))) == 1
    assert len(set(workers("beside"))) > 1


def test_the_time_left_follows_from_what_tests_took_before():
    now, said = [0.0], []
    known = {"tests/programs/a": 60.0, "tests/programs/b": 30.0, "tests/programs/c": 30.0}
    left = remaining.Remaining(known, said.append, lambda: now[0])
    left.plan(list(known))
    assert left.line() == "elapsed 0:00, 0 of 3 tests", "too early"
    for name, at in zip(known, (5.0, 30.0, 45.0)):
        now[0] = at
        for when in ("setup", "call", "teardown"):
            left.pytest_runtest_logreport(Report(name, when, at / 3))
    # 90 of 120 expected seconds took 30 s. No line comes before 20 s, and none after the last test.
    assert said == ["elapsed 0:30, 2 of 3 tests, about 0:10 left"]
    assert left.took == pytest.approx(dict(zip(known, (5.0, 30.0, 45.0))))


def test_the_run_remembers_how_long_each_test_took(suite):
    suite.add("pure", "def test_one(): pass\n")
    done = shell.run(sys.executable, "-m", "pytest", "-q", "tests", cwd=suite.tests.parent)
    assert done.returncode == 0, done.stdout
    kept = suite.tests.parent / ".pytest_cache/v" / remaining.KEPT
    assert list(json.loads(kept.read_text())) == ["tests/pure/test_pure.py::test_one"]
