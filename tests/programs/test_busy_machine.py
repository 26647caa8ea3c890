"""A machine under other load: what it disturbs is not judged, and the report gives the reason."""

import json
import sys

import pytest
from bench import DATA, HPL
from replays import judged_hpl, scaled

from assay.show import summary
from assay.show.view import View
from assay.store import session

pytestmark = pytest.mark.slow

#: A limit that any other work exceeds, on any machine, and one that nothing exceeds.
LEAST, MOST = 1e-6, 1e6


def limit(bench, value):
    (bench.site / "tolerances.yaml").write_text(json.dumps({"other_work": value}))


def judged(bench, runs, others, before=""):
    """Runs HPL on recorded runs, one for each launch. `others` says how to measure other work."""
    return judged_hpl(bench, runs, "--mode", "smoke", before=before, extras=shared(others))


def shared(others):
    return {"memory_bytes": 2**33, "memory_fraction": 0.02, "others": others}


#: Uses half a second of processor time, however long it has to wait for it.
WORK = f"{sys.executable} -c 'import time; all(iter(lambda: time.process_time() < 0.5, False))'"


@pytest.fixture
def foreign(tmp_path):
    """An account of a control group that never grows, so all processor time is other work."""
    path = tmp_path / "cpuacct.usage"
    path.write_text("1000000000\n")
    return str(path)


def ours(account):
    """A shell command by which the account grows by more than the machine can use."""
    return f"echo $(($(cat {account}) + {10**15})) >{account}"


@pytest.mark.long
def test_launches_beside_other_work_are_no_failure(bench, foreign):
    limit(bench, LEAST)
    turns, run, case, report = judged(bench, [scaled(0.5)], foreign, WORK)
    assert (run.returncode, case.verdict.value) == (1, "INCONCLUSIVE")
    assert turns.started == 3, "not the whole budget"
    assert case.why.startswith("the machine was busy: other work took ")
    assert "is below the lower bound" in case.why
    assert case.record["others"]["processors"] > 0
    (line,) = (x for x in summary.closing_lines(View.of(report)) if x.startswith("verdict: "))
    assert line.startswith("verdict: INCONCLUSIVE: the machine was busy: other work took ")


#: Makes other work of what a job burns, on the machine of a person: no process is ours.
ALONE = """
from assay.prove import busy
from assay.run import mpi

busy.PROGRAM = busy.PROGRAM.replace("ours = (", "ours = 0 * (")
mpi.LEAST_OF_A_CORE = 0.0  # these ranks only print what others computed
"""


def test_on_the_machine_of_a_person_launches_beside_other_work_are_not_judged(bench):
    limit(bench, LEAST)
    bench.code = ALONE
    turns, run, case, report = judged(bench, [scaled(0.5)], "processes", WORK)
    assert (run.returncode, case.verdict.value) == (0, "RECORDED"), run.output
    assert turns.started == 3
    (metric,) = case.metrics
    assert metric.verdict.value == "RECORDED"
    assert metric.value, "the number is there"
    assert case.others
    (said,) = case.not_judged
    assert "is below the lower bound" in said
    assert summary.outcome(report).faults == ()
    lines = summary.closing_lines(View.of(report))
    assert any(x.startswith(f"not judged, {case.busy}: Hpl ") for x in lines)
    assert lines[-1].startswith("verdict: PARTIAL: ")
    assert lines[-1].endswith(
        f"1 case was not judged, because {case.busy}: run again when the machine is idle"
    )


def test_on_the_machine_of_a_person_a_number_that_is_too_good_fails_beside_other_work(bench):
    """Other work makes no benchmark faster."""
    limit(bench, LEAST)
    bench.code = ALONE
    turns, run, case, _ = judged(bench, [scaled(3.0)], "processes", WORK)
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", 3), run.output
    assert "is above the upper bound" in case.why


@pytest.mark.long
def test_on_the_machine_of_a_person_broken_evidence_fails_beside_other_work(bench):
    limit(bench, LEAST)
    bench.code = ALONE
    turns, run, case, _ = judged(bench, [HPL.but(rc=139)], "processes", WORK)
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", 1)


@pytest.mark.long
def test_a_launch_beside_other_work_that_is_within_its_bounds_passes(bench, foreign):
    limit(bench, LEAST)
    turns, run, case, _ = judged(bench, [HPL], foreign, WORK)
    assert (run.returncode, case.verdict.value, turns.started) == (0, "PASS", 2), run.output
    assert case.record["others"]["processors"] > 0


@pytest.mark.long
def test_a_disturbed_launch_counts_for_nothing_and_the_next_one_decides(bench, foreign):
    first = f"{bench.folder}/first"
    work = f"if [ -e {first} ]; then {ours(foreign)}; else {WORK}; touch {first}; fi"
    limit(bench, LEAST)
    turns, run, case, _ = judged(bench, [scaled(0.5), HPL], foreign, work)
    assert (run.returncode, case.verdict.value, turns.started) == (0, "PASS", 3), run.output
    (metric,) = case.metrics
    assert len(metric.samples) == 2


@pytest.mark.long
def test_what_the_benchmark_burns_itself_excuses_nothing(bench, foreign):
    """Its own loop is not other work. The fault is found after the usual number of launches."""
    limit(bench, LEAST)
    turns, run, case, _ = judged(bench, [scaled(0.5)], foreign, f"{WORK}; {ours(foreign)}")
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", 3), case.why


@pytest.mark.long
def test_broken_evidence_beside_other_work_fails_at_once(bench, foreign):
    limit(bench, LEAST)
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
        return osu_py.parse_osu_py(Path({text!r}).read_text(), last_size=1 << 19)

    def measure(self, parsed):
        return {{"bandwidth_1KiB": parsed.quantity("bandwidth", size=1024)}}
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("during", "verdict", "why"),
    [
        (LEAST, "INCONCLUSIVE", "the machine was busy: other work took "),
        (MOST, "FAIL", "osu_bw: line 3: bandwidth is 0.00, which is not a measured value"),
    ],
    ids=["busy", "quiet"],
)
def test_a_bandwidth_of_zero_is_rounding_on_a_busy_machine_only(
    bench, foreign, during, verdict, why
):
    limit(bench, during)
    text = str(DATA / "osu-py" / "busy" / "osu_bw.4.1.2.np2.txt")
    bench.ready(launcher="replay", extras={"others": foreign})
    run = bench.own(ROUNDED.format(text=text, work=WORK))
    (case,) = session.load_session(session.newest(bench.results)).cases
    assert (run.returncode, case.verdict.value) == (1, verdict), case.why
    assert case.why.startswith(why)
    assert "bandwidth is 0.00" in case.why
