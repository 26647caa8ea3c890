"""Two runs at the same time, interrupted and killed runs, and a listing before the report."""

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import shell
from bench import OWN, ROOT, run_reframe
from hanging import Hanging

pytestmark = pytest.mark.slow

#: Seven cases are not skipped. The cases 0, 1 and 3 end before case 4 hangs.
FINISHED = "INTERRUPTED: 3 of 7 finished"


@pytest.fixture
def hanging(bench):
    with Hanging(bench) as run:
        yield run


def report(results, *arguments):
    """Exit code and output lines of ``assay report``."""
    words = (sys.executable, "-m", "assay", "report", *arguments)
    done = shell.run(*words, cwd=ROOT, ASSAY_RESULTS=results)
    assert "Traceback" not in done.stdout, done.stdout
    return done.returncode, done.stdout.splitlines()


def check(results, lines):
    """Checks that the report describes an interrupted run as interrupted."""
    assert f"verdict: FAIL: {FINISHED}; 1 case failed" in lines
    counts = next(line for line in lines if " cases ran: " in line)
    assert "3 of 8 cases ran: 2 PASS" in counts or "3 of 8 cases ran: 0 PASS" in counts
    assert " 1 FAIL," in counts
    assert counts.endswith("; 1 not run, 4 not finished")
    (failed,) = [line for line in lines if line.startswith("FAIL ")]
    assert "Step %number=1 @" in failed
    assert any("not run: this machine has no second step: 1 case" in line for line in lines)
    page = (results / "report.html").read_text()
    assert FINISHED in page
    assert "<b>4</b> not finished" in page
    assert "no second step" in page


@pytest.mark.parametrize("policy", ["async", pytest.param("serial", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_an_interrupted_run_says_what_is_not_finished(bench, number, policy):
    """With the serial policy, the run report does not contain the cases that never started."""
    with Hanging(bench, f"--exec-policy={policy}") as hanging:
        assert hanging.end(number) != 0
    code, lines = report(bench.results)
    assert code == 1
    check(bench.results, lines)


def test_a_killed_run_is_reported_by_what_it_finished(hanging):
    assert hanging.end(signal.SIGKILL) == -signal.SIGKILL
    results = hanging.bench.results
    assert not list(results.glob("reports/run-report-*"))
    for arguments in ((), ("--session", results / "latest")):
        code, lines = report(results, *arguments)
        assert code == 1
        check(results, lines)


def test_an_interruption_without_a_failure_has_its_own_word(hanging):
    """The failed case is removed from the files of the run."""
    hanging.end(signal.SIGINT)
    (file,) = hanging.bench.results.glob("reports/run-report-*.json")
    said = json.loads(file.read_text())
    cases = said["runs"][0]["testcases"]
    said["runs"][0]["testcases"] = [c for c in cases if c["result"] != "fail"]
    file.write_text(json.dumps(said))
    plan = next(hanging.bench.results.glob("output/*/session.json"))
    planned = json.loads(plan.read_text())
    planned["cases"] = [c for c in planned["cases"] if "=1" not in c["display_name"]]
    plan.write_text(json.dumps(planned))
    code, lines = report(hanging.bench.results)
    assert code == 3
    assert "verdict: INTERRUPTED: 2 of 6 finished" in lines


def test_a_second_run_is_refused_and_a_listing_is_not(hanging):
    results = hanging.bench.results
    arguments = ("-c", str(hanging.checks))
    second = run_reframe(hanging.config, results, *arguments, "-r")
    assert second.returncode != 0
    assert not second.cases
    (line,) = [line for line in second.output.splitlines() if "ERROR" in line]
    assert f"{results}: process {hanging.process.pid} of " in line
    assert "runs here; wait for its end, or name another directory by ASSAY_RESULTS=" in line
    listing = run_reframe(hanging.config, results, *arguments, "-L")
    assert listing.returncode == 0, listing.output
    elsewhere = run_reframe(
        hanging.config, hanging.bench.folder / "other", *arguments, "-n", "number=0", "-r"
    )
    assert "[1/1]" in elsewhere.output
    hanging.end(signal.SIGKILL)
    after = run_reframe(hanging.config, results, *arguments, "-n", "number=0", "-r")
    assert "[1/1]" in after.output
    (made,) = {Path(p).name for p in results.glob("output/*")} - {hanging_folder(hanging)}
    assert (results / "latest").resolve() == results / "output" / made


def hanging_folder(hanging):
    """The name of the session folder of the run that hangs."""
    return re.search(r"output directory: +'.*/output/([\w-]+)'", hanging.said())[1]


def test_a_listing_before_the_report_takes_no_reason_away(bench):
    steps = Hanging(bench)
    steps.log.close()
    arguments = ("-c", str(steps.checks))
    run = run_reframe(steps.config, bench.results, *arguments, "-n", "number=[02]", "-r")
    assert run.cases
    run_reframe(steps.config, bench.results, *arguments, "-L")
    reason = "not run: this machine has no second step: 1 case of Step"
    assert reason in report(bench.results)[1]
    copied = bench.folder / "copied"
    shutil.copytree(bench.results, copied, symlinks=True)
    shutil.rmtree(bench.results)
    assert reason in report(copied)[1]


def test_results_are_for_their_owner_and_group_until_others_are_let_in(bench):
    """The umask stays: others use the same checkout, and read its compiled modules."""
    bench.ready(launcher="replay")

    def modes():
        bench.run("-n", "Nothing", path=bench.check("ours", OWN))
        (folder,) = (bench.results / "output").glob("*")
        shutil.rmtree(folder)
        return [oct(path.stat().st_mode & 0o777) for path in (bench.results, folder.parent)]

    before = os.umask(0o022)
    try:
        assert modes() == ["0o750", "0o755"]
        bench.results.chmod(0o755)
        assert modes() == ["0o755", "0o755"]
    finally:
        os.umask(before)
