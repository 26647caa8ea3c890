"""A machine under other load: nothing is judged, nothing fails, and the report gives the reason."""

import contextlib
import json
import subprocess
import time

import pytest
from bench import DATA, HPL
from replays import Turns, judged_hpl, scaled

from assay.report import summary
from assay.results import session

# Other work would change the numbers of these tests, and these tests load the machine for others.
pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.long]

HOG = ["timeout", "120", "sh", "-c", "while :; do :; done"]


@contextlib.contextmanager
def hogs(number):
    """Starts `number` busy loops. They end with the block, and after two minutes in any case."""
    started = [subprocess.Popen(HOG, start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for hog in started:
            hog.terminate()
        for hog in started:
            hog.wait(30)


def limits(bench, **values):
    (bench.site / "busy.yaml").write_text(json.dumps(values))


def judged(bench, runs, others="processes", before=""):
    """Runs HPL on recorded runs, one for each launch. `others` says how to measure other work."""
    return judged_hpl(bench, runs, "--mode", "smoke", before=before, extras=shared(others))


def shared(others="processes"):
    return {"memory_bytes": 2**33, "memory_fraction": 0.02, "others": others}


def test_a_run_on_a_busy_machine_judges_nothing_and_begins_no_benchmark(bench):
    with hogs(10):
        began = time.monotonic()
        turns, run, case, report = judged(bench, [HPL])
        assert time.monotonic() - began < 100
    assert turns.started == 0
    assert run.returncode == 1
    assert case.verdict.value == "INCONCLUSIVE"
    assert case.why.startswith("the machine was busy: other work takes ")
    assert run.output.count("this machine is busy: other work takes") == 1
    assert "nothing is measured or judged" in run.output
    (line,) = (x for x in summary.closing_lines(report) if x.startswith("verdict: "))
    assert line.startswith("verdict: INCONCLUSIVE: the machine was busy: other work takes ")


def test_what_is_not_judged_is_not_measured_on_a_busy_machine_and_that_is_red(bench):
    """Its numbers would include the other work. A run without any numbers must not be green."""
    bench.partition(launcher="local", extras=shared())
    turns = Turns(bench, [HPL])
    with hogs(10):
        run = bench.run("-n", "^Hpl$|NodeHealth", path="reframe")
    report = session.load(session.newest(bench.results))
    said = {case.test: (case.verdict and case.verdict.value) for case in report.cases}
    assert said == {"Hpl": None, "NodeHealth": "RECORDED"}, run.output
    assert turns.started == 0
    (fault,) = summary.faults(report)
    assert fault.startswith("the machine was busy: other work takes ")
    assert fault.endswith("; 1 case not measured")
    assert "verdict: INCONCLUSIVE: the machine was busy: " in "\n".join(
        summary.closing_lines(report)
    )


#: Keeps a processor busy for a while.
WORK = "awk 'BEGIN { for (i = 0; i < 9000000; i++) s += i % 7 }'"


@pytest.fixture
def foreign(tmp_path):
    """An account of a control group that never grows, so all processor time is other work."""
    path = tmp_path / "cpuacct.usage"
    path.write_text("1000000000\n")
    return str(path)


def test_launches_beside_other_work_are_no_failure(bench, foreign):
    limits(bench, before=99)
    turns, run, case, report = judged(bench, [scaled(0.5)], foreign, WORK)
    assert (run.returncode, case.verdict.value) == (1, "INCONCLUSIVE")
    assert turns.started == 3, "not the whole budget"
    assert case.why.startswith("the machine was busy: other work took ")
    assert "is below the lower bound" in case.why
    assert case.record["others"]["processors"] > 0.3
    (line,) = (x for x in summary.closing_lines(report) if x.startswith("verdict: "))
    assert line.startswith("verdict: INCONCLUSIVE: the machine was busy: other work took ")


def test_a_launch_beside_other_work_that_is_within_its_bounds_passes(bench, foreign):
    limits(bench, before=99)
    turns, run, case, _ = judged(bench, [HPL], foreign, WORK)
    assert (run.returncode, case.verdict.value, turns.started) == (0, "PASS", 1), run.output
    assert case.record["others"]["processors"] > 0.3


def test_a_disturbed_launch_counts_for_nothing_and_the_next_one_decides(bench, foreign):
    first = f"[ -e {bench.folder}/first ] || {{ {WORK}; touch {bench.folder}/first; }}"
    limits(bench, before=99, during=0.3)
    turns, run, case, _ = judged(bench, [scaled(0.5), HPL], foreign, first)
    assert (run.returncode, case.verdict.value, turns.started) == (0, "PASS", 2), run.output
    (metric,) = case.metrics
    assert len(metric.samples) == 1


def test_what_the_benchmark_burns_itself_excuses_nothing(bench):
    """Its own loop is not other work. The fault is found after the usual number of launches."""
    limits(bench, before=99, during=1.9)
    turns, run, case, _ = judged(bench, [scaled(0.5)], before=WORK)
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", 3), case.why


def test_broken_evidence_beside_other_work_fails_at_once(bench, foreign):
    limits(bench, before=99)
    turns, run, case, _ = judged(bench, [HPL.but(rc=139)], foreign, WORK)
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", 1)
    assert case.why.startswith("xhpl ended with exit code 139")


ROUNDED = """\
@rfm.simple_test
class Rounded(Own):
    kind = "network"
    executable = {work!r}
    declares = {{"bandwidth_1KiB": "MB/s"}}

    def read(self):
        return osu_py.parse(Path({text!r}).read_text(), last_size=1 << 19)

    def measure(self, parsed):
        return {{"bandwidth_1KiB": parsed.quantity("bandwidth", size=1024)}}
"""


@pytest.mark.parametrize(
    ("during", "verdict", "why"),
    [
        (0.3, "INCONCLUSIVE", "the machine was busy: other work took "),
        (99, "FAIL", "osu_bw: line 3: bandwidth is 0.00, which is not a measured value"),
    ],
    ids=["busy", "quiet"],
)
def test_a_bandwidth_of_zero_is_rounding_on_a_busy_machine_only(
    bench, foreign, during, verdict, why
):
    limits(bench, before=99, during=during)
    text = str(DATA / "osu-py" / "busy" / "osu_bw.4.1.2.np2.txt")
    bench.ready(launcher="local", extras={"others": foreign})
    run = bench.own(ROUNDED.format(text=text, work=WORK))
    (case,) = session.load(session.newest(bench.results)).cases
    assert (run.returncode, case.verdict.value) == (1, verdict), case.why
    assert case.why.startswith(why)
    assert "bandwidth is 0.00" in case.why
