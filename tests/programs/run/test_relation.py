"""Ratios of other cases of one run; no benchmark runs."""

from types import SimpleNamespace

import pytest
import shell

from assay.parse import Parsed, hpcc

HPL, HPCC, HPCG, OSU = (
    shell.module(f"reframe/{path}.py")
    for path in ("compute/hpl", "compute/hpcc", "compute/hpcg", "network/ucx_perftest")
)

OPERANDS = """\
from assay.run.relation import Relation, variant


@rfm.simple_test
class Measured(Own):
    part = parameter(["hpl", "dgemm"])
    declares = {"rate": "GFLOP/s"}

    def read(self):
        rows = ({"rate": {"hpl": HPL, "dgemm": 40.0}[self.part]},)
        return Parsed("own", "own", None, True, rows, {"rate": "GFLOP/s"})

    def measure(self, parsed):
        return {"rate": parsed.quantity("rate")}


@rfm.simple_test
class Ratio(Relation):
    kind = "compute"
    descr = "a ratio"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    declares = {"hpl_per_dgemm": "1"}

    @run_after("init")
    def operands(self):
        parts = {part: (variant(Measured, part=part), "rate") for part in ("hpl", "dgemm")}
        self.compare(**parts)

    def measure(self, parsed):
        return {"hpl_per_dgemm": self.ratio(parsed, "hpl", "dgemm")}
"""


@pytest.mark.parametrize(("hpl", "cause"), [(30.0, ""), (3.0, "is below the lower bound 0.35")])
def test_a_ratio_of_two_cases_is_judged(bench, hpl, cause):
    bench.ready()
    bench.record_all()
    bench.expect(
        "Ratio", {"hpl_per_dgemm": {"value": 0.7, "unit": "1", "lower": -0.5, "upper": 0.5}}
    )
    run = bench.own(OPERANDS.replace("HPL,", f"{hpl},"), "--max-retries=2")
    record = run.says("Ratio", cause).record if cause else run.case("Ratio").record
    assert record["metrics"]["hpl_per_dgemm"]["value"] == pytest.approx(hpl / 40)
    assert record["verdict"] == ("FAIL" if cause else "PASS")


def measured(kind, **values):
    """What a relation makes of its operands."""
    rows = tuple({"operand": name, "value": value} for name, value in values.items())
    known = SimpleNamespace(_cores_of_a_node=lambda: 2)
    known.ratio = kind.ratio.__get__(known)
    return kind.measure(known, Parsed("assay", "relation", None, True, rows, {"value": "1"}))


#: What OSU says: healthy, then with 20 us more for each message of osu_latency, with Mbit for MB,
#: and with two iterations without a warm-up; and the metrics that show it.
OF_OSU = [
    ({}, set()),
    ({"latency": 21}, {"latency_per_ucx", "messages_in_flight"}),
    ({"bandwidth": 109000}, {"bandwidth_per_ucx"}),
    ({"bandwidth": 1022}, {"bandwidth_per_ucx"}),
    ({"latency": 21, "latency_of_ucx": 20}, {"messages_in_flight"}),
]

#: The bounds on any machine.
BOUNDS = {
    "latency_per_ucx": (0.3, 10.5), "bandwidth_per_ucx": (0.2, 5), "messages_in_flight": (0.5, 64),
}  # fmt: skip
HEALTHY = {"latency": 0.4, "latency_of_ucx": 0.25, "rate_8B": 80}
HEALTHY |= {"bandwidth": 14000, "bandwidth_of_ucx": 12000}


@pytest.mark.parametrize(("change", "shows"), OF_OSU)
def test_what_osu_says_is_compared_with_what_ucx_says(change, shows):
    found = measured(OSU.OsuAgainstUcx, **{**HEALTHY, **change})
    beyond = {n for n, (least, most) in BOUNDS.items() if not least <= found[n] <= most}
    assert beyond == shows


def test_hpl_with_a_reference_blas_is_far_below_the_dgemm_of_hpcc():
    found = measured(HPL.HplAgainstDgemm, hpl=7.7, dgemm=45.0)
    assert found["hpl_per_dgemm"] == pytest.approx(0.0856, rel=0.01)
    found = measured(HPCG.HpcgAgainstStream, rating=3.0, triad=15000.0)
    assert found["hpcg_per_triad"] == pytest.approx(0.2)


def test_hpcc_has_ratios_of_its_own_parts():
    text = (shell.ROOT / "tests/data/hpcc/np2.txt").read_text()
    kind = HPCC.Hpcc
    found = kind.measure(SimpleNamespace(num_tasks=2), hpcc.parse_hpcc(text))
    ratios = {name: value for name, value in found.items() if kind.declares[name] == "1"}
    assert set(ratios) == {
        "hpl_per_dgemm", "dgemm_star_per_single", "stream_star_per_single",
        "stream_copy_per_triad", "ring_bandwidth_per_stream_copy",
    }  # fmt: skip
    assert all(0.1 < value < 3 for value in ratios.values()), ratios
