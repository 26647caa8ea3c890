"""The demands of the base class on every test: its launch, its metrics, a verdict on each."""

import os

import pytest
from bench import OWN
from few_messages import perftest

from assay import metrics
from assay.declared import Figure
from assay.exits import Exit
from assay.judge import Verdict
from assay.show import junit, openmetrics, summary
from assay.show.view import View
from assay.store import session

pytestmark = pytest.mark.slow


STILL = """\
@rfm.simple_test
class Still(Own):
    pass
"""


def test_a_clock_that_cannot_say_when_the_benchmark_ran(bench):
    """The `date` of another system behaves like this, because it does not know %N."""
    bench.partition()
    script = "#!/bin/sh\n[ $# = 1 ] && echo 1700000000.N\n"
    bench.stack("elsewhere", ["mpi"], bench.program("elsewhere", "date", script))
    torn = "'rc=0 start=1700000000.N begin=1700000000.N end=1700000000.N host="
    bench.own(STILL).says("Still", f"assay.launch is torn: {torn}")


def broken(bench, run, test, why):
    """The case and its run are red for an error of the test, and accuse nothing else."""
    assert run.returncode != 0
    assert f"INCONCLUSIVE    {test} " in run.output
    assert f"the test is broken: {why}" in run.output
    found = session.load_session(session.newest(bench.results))
    (case,) = found.cases
    assert (case.verdict, case.problems) == (Verdict.INCONCLUSIVE, ())
    assert case.why.startswith(f"the test is broken: {why}")
    ended = summary.outcome(found)
    said = ("its test is broken, not the machine; 1 case could not be decided",)
    assert (ended.word, ended.faults) == ("INCONCLUSIVE", said)
    assert summary.exit_code(found) == Exit.INCONCLUSIVE
    assert 'failures="0" errors=' in junit.render_junit(View.of(found))


OWN_FUNCTION = """\
@rfm.simple_test
class Function(Own):
    @performance_function("MB/s")
    def rate(self):
        raise ValueError("ReFrame would warn and pass")
"""


def test_a_metric_from_a_function_of_its_own(bench):
    bench.ready()
    run = bench.own(OWN_FUNCTION)
    broken(bench, run, "Function", "metric 'rate' does not come from measure()")


#: A test that counts how often its record is written.
WRITES = """
from assay import files

write = files.write_file

def counted(path, content, *others):
    if path.name == "assay.json":
        with open({log!r}, "a") as file:
            file.write(path.name)
    write(path, content, *others)

files.write_file = counted


@rfm.simple_test
class Once(Own):
    declares = {{"rate": "MB/s"}}

    def read(self):
        return Parsed("own", "own", None, True, ({{"rate": 7.0}},), {{"rate": "MB/s"}})

    def measure(self, parsed):
        return {{"rate": {value}}}
"""


@pytest.mark.parametrize(
    ("value", "verdict"), [('parsed.quantity("rate")', "RECORDED"), ("parsed.nothing", None)]
)
def test_a_record_is_written_once_also_before_an_error_of_the_test(bench, value, verdict):
    bench.record_all()
    log = bench.folder / "writes"
    record = bench.ready().own(WRITES.format(value=value, log=str(log))).case("Once").record
    assert (record["verdict"], record["parsed"]["rows"]) == (verdict, [{"rate": 7.0}])
    assert log.read_text() == "assay.json"


PEAKS = """\
from assay.run import Peak

@rfm.simple_test
class Peaked(Own):
    share = parameter([1.04, 1.06, 10.0])
    most = parameter([None, 1.05])
    declares = {"rate": "MB/s", "time": "s"}

    def measure(self, parsed):
        return {"rate": Quantity(100.0, "MB/s"), "time": Quantity(100.0, "s")}

    def peaks(self, parsed):
        peak = Peak("link, hardware.yaml", 100.0 / self.share, self.most)
        return {"rate": peak, "time": Peak("no limit of a time", 1.0)}
"""


def test_no_rate_is_above_its_peak(bench):
    bench.ready()
    bench.record_all()
    run = bench.own(PEAKS)
    for share in ("1.04", "1.06", "10.0"):
        assert run.case(f"Peaked %share={share} %most=None").result == "pass"
    assert run.case("Peaked %share=1.04 %most=1.05").result == "pass"
    for share, peak, most in (("1.06", "94.34", "99.06"), ("10.0", "10", "10.5")):
        why = (
            "INCONCLUSIVE: implausible: rate is 100 MB/s; the peak (link, hardware.yaml) is "
            f"{peak} MB/s, and at most {most} is plausible"
        )
        case = run.says(f"Peaked %share={share} %most=1.05", why)
        assert case.record["verdict"] == "INCONCLUSIVE"


METRIC = """\
@rfm.simple_test
class Careless(Own):
    number = parameter(range({count}))
    declares = {{"rate": "MB/s", "time": "s"}}

    def read(self):
        return Parsed("careless", "careless", None, True, ({{"rate": 1.0}},), {{"rate": "MB/s"}})

    def measure(self, parsed):
        return [{measured}][self.number]
"""


def careless(bench, *measured):
    """Runs a case for each of these measurements."""
    return bench.own(METRIC.format(count=len(measured), measured=", ".join(measured)))


@pytest.mark.parametrize(
    ("measured", "cause"),
    [
        ("{'rate': 1.0}", "metric 'time' was not extracted"),
        ("{'rate': 1.0, 'time': 1 / 0}", "metrics cannot be read"),
        ("{'rate': parsed.quantity('rate', size=8)}", "0 rows of careless have size=8"),
    ],
)
def test_a_metric_that_is_missing_or_cannot_be_read(bench, measured, cause):
    bench.ready()
    assert careless(bench, measured).says("Careless", cause).record["verdict"] == "FAIL"


def test_a_metric_in_a_unit_that_nobody_knows(bench):
    bench.ready()
    run = bench.own(METRIC.format(count=1, measured="{}").replace('"s"', '"sec"'))
    why = "declares: 'time': unknown unit 'sec': write Unit(\"sec\", \"rate\"), or "
    broken(bench, run, "Careless", why)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("return Parsed(", "return {}['x'] or Parsed("), "KeyError: 'x' (own.py:"),
        (("return [", "return nothing or ["), "NameError: name 'nothing' is not defined (own.py:"),
        (("'time': 2.0", "'time': parsed.at('time')"), "KeyError: 'time' (own.py:"),
        (("'time': 2.0", "'time': 2.0, 'more': 1.0"), "metric 'more' is not declared"),
        (("'rate': 1.0", "'rate': Quantity(1.0, 'B/s')"), "metric 'rate' is in 'B/s', not in "),
        (
            (
                "    def read",
                "    @run_before('run')\n    def hook(self):\n        1 / 0\n\n    def read",
            ),
            "ZeroDivisionError: division by zero (own.py:",
        ),
    ],
)
def test_an_error_of_the_author_accuses_no_machine(bench, change, why):
    bench.ready()
    bench.record_all()
    test = METRIC.format(count=1, measured="{'rate': 1.0, 'time': 2.0}")
    assert change[0] in test
    broken(bench, bench.own(test.replace(*change)), "Careless", why)


def test_a_parser_that_breaks_on_the_output_of_a_crash_hides_no_crash(bench):
    bench.ready()
    test = METRIC.format(count=1, measured="{}").replace("return Parsed(", "return {}['x'] or (")
    run = bench.own(f"{test}\n    executable = 'false'\n")
    said = run.says("Careless", "false ended with exit code 1", "false: 'x'")
    assert said.record["verdict"] == "FAIL"


REFUSED = """\
@rfm.simple_test
class Refused(Own):
    @sanity_function
    def always(self):
        return True
"""


def test_a_file_with_a_class_that_is_refused_makes_the_run_a_part(bench):
    bench.ready()
    bench.record_all()
    bench.check("refused", OWN + REFUSED)
    run = bench.own(STILL)
    assert run.case("Still").result == "pass"
    found = session.load_session(session.newest(bench.results))
    why = "not loaded: the test is broken: Refused: @sanity_function always() would replace"
    assert found.partial[0].startswith(why)
    assert summary.outcome(found).word == "PARTIAL"
    assert f"PARTIAL: {why}" in run.output


MIPS = """\
from assay.metrics import Unit
from assay.parse import Parsed

@rfm.simple_test
class Seven(Own):
    declares = {"speed": Unit("MIPS", "rate")}

    def read(self):
        units = {"speed": "MIPS", "wait": Unit("tick", "time")}
        rows = ({"speed": 4000.0, "wait": 3.0},)
        return Parsed("seven", "seven", "1", True, rows, units)

    def measure(self, parsed):
        return {"speed": parsed.quantity("speed")}
"""


@pytest.mark.parametrize(("reference", "verdict"), [("3000", "PASS"), ("5000", "FAIL")])
def test_a_test_is_judged_in_a_unit_of_its_own(bench, reference, verdict):
    """The record has the kind of the unit, for the page and all that is read later."""
    bench.ready()
    bench.expect("Seven", {"speed": f">= {reference} MIPS"})
    record = bench.own(MIPS, "--max-retries=2").case("Seven").record
    assert (record["verdict"], record["metrics"]["speed"]["unit"]) == (verdict, "MIPS")
    assert record["units"] == {"MIPS": "rate", "tick": "time"}
    found = session.load_session(session.newest(bench.results))
    (case,) = found.cases
    assert {name: metrics.kind(unit) for name, unit in case.parsed.units.items()} == {
        "speed": "rate", "wait": "time",
    }  # fmt: skip
    assert metrics.fault(case.metrics[0].unit) == "lower"
    assert 'unit="MIPS"' in openmetrics.render_metrics(View.of(found))


def test_a_reference_of_the_wrong_side_in_a_unit_of_the_test_is_refused(bench):
    bench.ready()
    bench.expect("Seven", {"speed": "<= 5000 MIPS"})
    why = "metrics/speed: lower is null, but a fault makes a metric in MIPS smaller; give lower"
    bench.own(MIPS).says("Seven", why)


DRAWN = """\
from assay.run import Figure


@rfm.simple_test
class Drawn(Own):
    number = parameter([1, 2])
    figures = [Figure("curve", "point to point: latency", at="between hosts")]

    @run_after("setup")
    def only_one(self):
        self.skip_if(self.number == 2, "there is one")
"""


def test_the_report_knows_the_figures_of_cases_that_ran_and_of_others(bench):
    bench.ready()
    run = bench.own(DRAWN)
    assert run.case("Drawn %number=1").record["figures"] == [
        {
            "kind": "curve",
            "name": "point to point: latency",
            "at": "between hosts",
            "column": "",
            "over": "",
        }
    ]
    cases = session.load_session(session.newest(bench.results)).cases
    assert [case.verdict is None for case in cases] == [False, True]
    assert {case.figures for case in cases} == {
        (Figure("curve", "point to point: latency", "between hosts"),)
    }


def test_several_launches_are_judged_by_their_interval(bench):
    """ReFrame sees only the median, and would pass an interval that contains the bound."""
    bench.ready()
    bench.expect("Careless", {"rate": {"value": 1.0, "unit": "MB/s", "lower": -0.1, "upper": 0.1}})
    samples = {
        "[1.0, 1.01, 1.0, 0.99, 1.0, 1.02]": ("PASS", ""),
        "[0.8, 1.0, 1.0, 1.0, 1.0, 1.0]": ("INCONCLUSIVE", "more launches would decide"),
        "[0.8, 0.8, 0.8, 0.8, 0.8, 0.8]": ("FAIL", "below the lower bound"),
    }
    run = careless(bench, *(f"{{'rate': {rates}, 'time': 1.0}}" for rates in samples))
    for number, (verdict, cause) in enumerate(samples.values()):
        record = run.says(f"Careless %number={number}", cause and verdict, cause).record
        assert record["metrics"]["rate"]["verdict"] == record["verdict"] == verdict


@pytest.mark.long
def test_a_relation_that_does_not_hold(bench):
    """The relation is judged on the values of other cases of the same run."""
    bench.record_all()
    metric = {"value": 1e6, "unit": "1", "lower": -0.5, "upper": 1}
    bench.expect("SharedMemoryAgainstTcp", {"latency_tcp_per_shared": metric})
    run = perftest(bench, "-n", "SharedMemoryAgainstTcp.*=posix")
    said = ("latency_tcp_per_shared: FAIL: ", "is below the lower bound 500000")
    outcome = run.says("SharedMemoryAgainstTcp", *said)
    assert {name: m["verdict"] for name, m in outcome.record["metrics"].items()} == {
        "latency_tcp_per_shared": "FAIL",
    }
    passed = [name for (name, *_), other in run.cases.items() if other.result == "pass"]
    assert len(passed) == len(run.cases) - 1, run.output


NAP = """\
@rfm.simple_test
class Nap(Own):
    number = parameter([1, 2])
    executable = "sleep"
    executable_opts = ["0.3"]
"""


def test_cases_of_all_partitions_of_one_machine_run_one_after_the_other(bench):
    """Two measurements at the same time would disturb each other."""
    bench.partition("one")
    bench.ready(name="two")
    run = bench.own(NAP)
    times = sorted(
        (outcome.record["seconds"]["began"], outcome.record["seconds"]["benchmark"])
        for outcome in run.cases.values()
    )
    assert len(times) == 4
    for (began, took), (following, _) in zip(times, times[1:]):
        assert took >= 0.3
        assert following >= began + took


#: A test whose launch failed, and whose numbers also show a slow node; other work takes `busy`.
ACCUSES = """
from assay.accused import Against, How
from assay.run import StrictCheck

StrictCheck._disturbance = lambda test: {busy!r}


@rfm.simple_test
class Accuses(Own):
    def examine(self, parsed):
        return [*super().examine(parsed), *{problems!r}]

    def accused(self, parsed):
        return [Against("node02 is slow", ["node02"], How.SLOW)]
"""


@pytest.mark.parametrize("busy", ["", "other work took 1.9 of 2 cores"])
def test_beside_a_failure_what_is_slow_accuses_nobody_on_a_busy_machine(bench, busy):
    source = ACCUSES.format(busy=busy, problems=["it broke"])
    record = bench.ready().own(source).says("Accuses", "it broke").record
    slow = f"node02 is slow (accuses nobody: {busy})" if busy else "node02 is slow"
    assert record["problems"] == ["it broke", slow]
    assert [said["nodes"] for said in record.get("accused", [])] == ([] if busy else [["node02"]])
    assert record["verdict"] == "FAIL"


@pytest.mark.parametrize(
    ("others", "verdict"), [("processes", "RECORDED"), ("/sys/fs/cgroup/cpu.stat", "INCONCLUSIVE")]
)
def test_evidence_that_other_work_hid_is_no_fault_on_the_machine_of_a_person(
    bench, others, verdict
):
    source = """
from assay.run import StrictCheck

StrictCheck._disturbance = lambda test: "other work took 1.9 of 2 cores"


@rfm.simple_test
class Unseen(Own):
    def missed(self):
        return "nobody saw where it wrote"
"""
    record = bench.ready(extras={"others": others}).own(source).case("Unseen").record
    assert record["verdict"] == verdict
    said = record["not_judged"] if verdict == "RECORDED" else record["problems"]
    assert said == ["nobody saw where it wrote"]


def test_alone_what_is_slow_decides_nothing_on_a_busy_machine(bench):
    source = ACCUSES.format(busy="other work took 1.9 of 2 cores", problems=[])
    assert bench.ready().own(source).case("Accuses").record["verdict"] == "INCONCLUSIVE"


SPEAKS = r"""
@rfm.simple_test
class Speaks(Own):
    executable = "sh"
    executable_opts = ["-c", "'" + r'printf "\033]0;title\007\033[2Jlast words" >&2; exit 3' + "'"]
"""


@pytest.mark.parametrize(
    ("name", "said", "needed"),
    [
        ("osu_bw", "osu_bw: invalid option -- 'W'", "OSU 5.4.2 or newer is needed"),
        ("mdtest", "mdtest: unrecognized option '-G=1'", "IOR 4.0 or newer is needed"),
        ("ior", "ior ERROR: open64(f) failed, errno 22, Invalid argument (aiori.c:4)", ""),
    ],
)
def test_a_program_that_does_not_know_an_option_is_called_old(bench, name, said, needed):
    bench.ready()
    folder = bench.program("any", name, f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    bench.environments[0]["env_vars"] = [["PATH", f"{folder}:{os.environ['PATH']}"]]
    run = bench.own(f'@rfm.simple_test\nclass Old(Own):\n    executable = "{name}"\n')
    run.says("Old", f"{name} ended with exit code 1", needed)
    assert ("is needed" in run.output) is bool(needed)


def test_the_reason_of_a_failure_does_not_act_on_a_terminal(bench):
    run = bench.ready().own(SPEAKS)
    run.says("Speaks", "ended with exit code 3: last words")
    assert "\x1b" not in run.output
    assert "\x07" not in run.output


OF_GPUS = """\
@rfm.simple_test
class Copies(Own):
    valid_systems = ["+gpu"]
    declares = {"rate": "MB/s"}

    def measure(self, parsed):
        return {"rate": Quantity(700.0, "MB/s")}


@rfm.simple_test
class Cores(Copies):
    valid_systems = ["+intra-node"]
"""


@pytest.mark.parametrize(
    ("arch", "copies"), [("emulated", ""), ("sm_90", "below the lower bound 950 MB/s")]
)
def test_no_number_of_an_emulated_gpu_is_judged_and_that_of_its_host_is(bench, arch, copies):
    devices = [{"type": "gpu", "arch": arch, "num_devices": 2}]
    bench.partition(features=["intra-node", "gpu"], devices=devices)
    bench.stack("any", ["mpi"])
    for test in ("Copies", "Cores"):
        rate = {"value": 1000, "unit": "MB/s", "lower": -0.05, "upper": 0.5}
        bench.expect(test, {"rate": rate})
    run = bench.own(OF_GPUS)
    run.says("Cores", "below the lower bound 950 MB/s")
    metric = run.case("Copies").says(copies).record["metrics"]["rate"]
    assert (metric["verdict"] == "RECORDED") is (arch == "emulated")
    assert ("no number of them is of hardware" in metric["why"]) is (arch == "emulated")
