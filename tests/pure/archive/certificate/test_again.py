"""Judging a session again: what contradicts a record of the session in tests/data/report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from report_results import BTIO, HPCC, Results

from assay.archive.certificate.again import OUTPUTS, Again, Judge
from assay.judge import Recorded, Reference, References, Verdict, judge
from assay.store import session
from assay.store.cases import Case
from assay.store.record import NO_MEASUREMENT, OF_SOFTWARE, Metric

LATENCY = "Osu %transport=posix %benchmark=latency@intra-node"

#: The references that the session was judged by.
REFERENCES = """\
references:
  - for: {partition: intra-node, test: Hpcc}
    metrics:
      hpl_per_dgemm: {value: 0.8, unit: "1", lower: -0.9, upper: 0.6}
      ring_bandwidth_per_stream_copy: {value: 0.4, unit: "1", lower: -0.95, upper: 4}
    wide: the references of that time
    source: the references of that time
recorded:
  - for: {partition: "*"}
    why: an absolute number of an unknown machine; its ratios are judged
"""


@pytest.fixture
def again(results: Results, tmp_path: Path) -> Callable[[str], Again]:
    """Judges one case of the session again."""
    file = tmp_path / "references.yaml"
    file.write_text(REFERENCES)

    def judged(name: str) -> Again:
        judge = Judge(session.load_session(results.file), References.load(file, sealed=True))
        (one,) = (a for a in judge.cases if f"{a.case.display_name}@{a.case.partition}" == name)
        return one

    return judged


def test_an_old_record_is_read_from_its_output_and_its_metrics_rest_on_it(again):
    one = again(LATENCY)
    assert one.contradictions == []
    assert one.read_from == ("Osu_31c4d960/rfm_job.out",)
    assert set(one.metrics.values()) == {"its record does not say how it was computed"}


def test_a_case_without_its_output_rests_on_its_record(again):
    one = again(HPCC)  # hpccoutf.txt is not in the data
    assert (one.contradictions, one.read_from) == ([], ())


def test_a_case_that_was_not_run_is_not_judged(again):
    with pytest.raises(ValueError):
        again(BTIO)


def traced(record: dict[str, Any]) -> None:
    """The record as it is written now, with formulas and the pattern of the curve."""
    record["curve"] = "point-to-point on shared cores"
    sizes = [row["size"] for row in record["parsed"]["rows"]]
    for name, size in {"latency_8B": 8, "latency_8KiB": 8192}.items():
        record["metrics"][name]["origin"] = [["cell", sizes.index(size), "latency"]]


def test_a_metric_with_a_formula_follows_from_the_output(again, results):
    results.edit_record(LATENCY, traced)
    one = again(LATENCY)
    assert one.contradictions == []
    assert one.metrics["latency_8B"] == OUTPUTS


def bent(results: Results, size: int, factor: float) -> None:
    """Makes one size of the curve slower, in the output and in the record."""
    path = results.record(LATENCY).with_name("rfm_job.out")
    lines = path.read_text().splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.split()[:1] == [str(size)])
    value = round(float(lines[at].split()[1]) * factor, 2)
    lines[at] = f"{size:<20}{value:>10.2f}"
    path.write_text("\n".join(lines) + "\n")

    def change(record: dict[str, Any]) -> None:
        (row,) = (row for row in record["parsed"]["rows"] if row["size"] == size)
        row["latency"] = value

    results.edit_record(LATENCY, change)


def test_a_curve_that_no_machine_has_does_not_follow(again, results):
    results.edit_record(LATENCY, traced)
    bent(results, 16384, 1000)
    (line,) = again(LATENCY).contradictions
    assert "says RECORDED, INCONCLUSIVE follows: implausible: a message of 16384 B took" in line


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (HPCC, {"verdict": "INCONCLUSIVE"}, "hpl_per_dgemm: says INCONCLUSIVE, PASS follows"),
        (HPCC, {"reference": 0.7}, "was judged by 0.7"),
        (HPCC, {"unit": "GB/s"}, "no reference for|is in '1', the test reports 'GB/s'"),
        (HPCC, {"samples": []}, "the record has no finite samples of it"),
    ],
)
def test_a_changed_metric_is_named(again, results, name, change, said):
    results.edit_record(name, lambda record: record["metrics"]["hpl_per_dgemm"].update(change))
    lines = again(name).contradictions
    assert any(re.search(said, line) for line in lines), lines


def test_a_recorded_metric_cannot_be_a_pass(again, results):
    results.edit_record(
        LATENCY, lambda record: record["metrics"]["latency_8B"].update(verdict="PASS")
    )
    (line,) = again(LATENCY).contradictions
    assert "latency_8B: PASS, and the site does not judge it" in line


def test_what_other_work_left_without_a_verdict_is_no_contradiction(again, results):
    results.edit_record(LATENCY, traced)
    bent(results, 16384, 1000)
    busy = {"busy": "other work took 1.8 of 2 cores", "not_judged": ["implausible"]}
    results.edit_record(LATENCY, lambda record: record.update(busy))
    assert again(LATENCY).contradictions == []


def test_a_pass_with_a_problem_is_a_contradiction(again, results):
    results.edit_record(LATENCY, lambda record: record.update(problems=["it is too slow"]))
    assert "RECORDED, and there is a problem: it is too slow" in again(LATENCY).contradictions[0]


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (
            "rc=3 start=1 begin=1 end=2 zone=+0000 host=vm up=1..1 down=2..2 nonce=x\n",
            "assay.launch has exit code 3",
        ),
        ("torn", "assay.launch is torn"),
    ],
)
def test_a_program_that_failed_is_a_contradiction(again, results, launch, said):
    results.record(LATENCY).with_name("assay.launch").write_text(launch)
    assert said in again(LATENCY).contradictions[0]


def test_an_output_of_another_program_is_a_contradiction(again, results):
    other = results.record("Osu %transport=tcp %benchmark=latency@intra-node")
    output = results.record(LATENCY).with_name("rfm_job.out")
    output.write_text(other.with_name("rfm_job.out").read_text())
    (line,) = again(LATENCY).contradictions
    assert "Osu_31c4d960/rfm_job.out does not give the rows of its record: row 1: latency" in line


WIDEST = Reference(10.0, "MB/s", 0.0, 9.0, "physics", None, "any machine")
WEAK = Reference(80.0, "MB/s", 0.0, None, "one owner", None, "published", WIDEST)


def verdict_again(expected: Reference | Recorded, metric: Metric, **case: Any) -> list[str]:
    """What speaks against a metric whose site has one reference."""
    named = dict.fromkeys(("test", "display_name", "unique_name", "system", "partition"), "x")
    found = SimpleNamespace(_references=SimpleNamespace(find=lambda *_: expected))
    made = Case(**named, environ="x", **{"verdict": metric.verdict, **case})
    return [*Judge._verdict(found, made, metric)]


def recorded(value: float, expected: Reference) -> Metric:
    """The metric as a run records it."""
    said = judge([value], expected)
    low, high = said.bounds
    names = {"reference": said.by.value, "lower": low, "upper": high}
    return Metric("rate", value, "MB/s", said.verdict, said.why, (value,), **names)


@pytest.mark.parametrize("value", [90.0, 50.0, 5.0])
def test_a_weak_floor_is_the_same_when_judged_again(value):
    metric = recorded(value, WEAK)
    assert verdict_again(WEAK, metric) == []
    forged = recorded(value, WEAK)
    forged.verdict = Verdict.FAIL if metric.verdict is Verdict.PASS else Verdict.PASS
    assert len(verdict_again(WEAK, forged)) == 1


def test_a_number_is_left_out_only_for_a_reason_that_a_run_may_have():
    def metric(why: str, name: str = "rate") -> Metric:
        return Metric(name, 5.0, "MB/s", Verdict.RECORDED, why, (5.0,))

    software = metric(NO_MEASUREMENT + OF_SOFTWARE)
    assert verdict_again(WIDEST, software) == []
    assert len(verdict_again(WIDEST, software, verdict=Verdict.PASS)) == 1
    cached = metric(f"{NO_MEASUREMENT}the page cache answered", "read")
    assert verdict_again(WIDEST, cached, family="ior") == []
    assert len(verdict_again(WIDEST, cached, family="osu")) == 1
    assert len(verdict_again(WIDEST, metric("nobody looked"))) == 1
