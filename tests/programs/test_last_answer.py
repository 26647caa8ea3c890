"""What every command says of the last run: never what an older run came to."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as Xml

import pytest
import shell
from bench import OWN, ROOT, run_reframe

from assay import cli

pytestmark = pytest.mark.slow

#: A test that passes.
SOUND = """\
@rfm.simple_test
class Sound(Own):
    pass
"""

#: How a start fails: arguments of ReFrame, variables, and what changes in the folder of the site.
STARTS = {
    "no case is selected": (("-n", "Nope"), {}, None),
    "a bad deadline": ((), {"ASSAY_DEADLINE": "abc"}, None),
    "an unknown stack": ((), {"ASSAY_STACK": "nobody"}, None),
    "a switch that checks nothing": (("--skip-sanity-check",), {}, None),
    "another host": (("--system", "other"), {}, None),
    "a broken site file": ((), {}, ("references.yaml", "references: [1\n")),
}

COMMANDS = {
    "report": ("--junit", "junit.xml", "--metrics", "metrics.prom"),
    "nodes": (),
    "archive": (),
    "certify": ("--key", "key"),
}


def assay(bench, command, *words):
    made = [str(bench.results / w) if w.endswith((".xml", ".prom")) else w for w in words]
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.setenv("ASSAY_RESULTS", str(bench.results))
        code = cli.main([command, *made])
    return SimpleNamespace(returncode=code, stdout=said.getvalue())


@pytest.fixture
def passed(bench):
    """A bench whose last run passed, with its page, JUnit and metrics, and how it is run again."""
    bench.ready()
    folder = bench.check("own", OWN + SOUND)
    done = bench.run(path=folder)
    assert done.returncode == 0, done.output
    (bench.site / "promise.yaml").write_text("nothing_judged: allowed\n")
    assert assay(bench, "report", *COMMANDS["report"]).returncode in (0, 4)

    def again(*arguments, **variables):
        config = bench.site / "reframe.py"
        words = ("-c", str(folder), *arguments, "-r")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            return run_reframe(config, bench.results, *words)

    return again


def check_no_answer(bench, said):
    for command, words in COMMANDS.items():
        done = assay(bench, command, *words)
        (line,) = done.stdout.splitlines()
        assert (done.returncode, said in line) == (2, True), (command, done.stdout)
    assert "No result" in (bench.results / "report.html").read_text()
    (error,) = Xml.parse(bench.results / "junit.xml").iter("error")
    assert said in error.get("message")
    assert "assay_run_verdict 2.0" in (bench.results / "metrics.prom").read_text()


@pytest.mark.parametrize(
    "how",
    [
        how if how.endswith(("selected", "file")) else pytest.param(how, marks=pytest.mark.long)
        for how in STARTS
    ],
)
def test_a_start_that_fails_leaves_no_older_answer(bench, passed, how):
    arguments, variables, change = STARTS[how]
    older = (bench.results / "report.html").read_text()
    if change:
        (bench.site / change[0]).write_text(change[1])
    done = passed(*arguments, **variables)
    assert done.returncode != 0, done.output
    check_no_answer(bench, "did not start")
    # The page of the older run is there, by its time, and its run report is named.
    (kept,) = bench.results.glob("output/*/report.html")
    assert "<title>" in kept.read_text() and "No result" not in kept.read_text()
    line = assay(bench, "nodes").stdout
    report = line.split("assay report --session ")[1].split()[0]
    info = json.loads(Path(report).read_text())["session_info"]
    assert kept.parent == Path(info["prefix_output"])
    assert older != (bench.results / "report.html").read_text()


def test_a_run_that_goes_on_has_no_answer_yet(bench, passed):
    """The results are held as ReFrame holds them."""
    code = (
        "import sys; from pathlib import Path; from assay.store import running\n"
        "running.runner.around = lambda _: None\n"
        "running.begin_session(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(bench.results)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "ASSAY_RESULTS": str(bench.results)},
    ) as running:  # fmt: skip
        assert running.stdout.readline() == "held\n"
        # From the first moment, before any command is typed.
        assert "No result" in (bench.results / "report.html").read_text()
        check_no_answer(bench, "has not ended")
        running.stdin.close()
    check_no_answer(bench, "did not start")


@pytest.mark.parametrize(
    "asked", [{"SITE": "nobody"}, pytest.param({"PROFILE": "half"}, marks=pytest.mark.long)]
)
def test_what_make_refuses_before_the_set_up_is_the_last_run(bench, passed, asked):
    lock = bench.results / ".lock"
    size = lock.stat().st_size
    done = shell.run("bash", "ci/asked.sh", cwd=ROOT, ASSAY_RESULTS=bench.results, **asked)
    assert done.returncode == 64
    assert not (bench.results / "report.html").exists()
    assert lock.stat().st_size == size, "a full disk takes no other bytes than these"
    check_no_answer(bench, "did not start")
