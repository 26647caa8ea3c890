"""What is red on the first day: healthy published values with faults, judged as in a run.

The healthy value of a number is the median of the results of its floor. It has two yardsticks: what
others publish, where the hardware is named, and bounds of any machine. docs/sensitivity.md has the
table that this test makes.
"""

import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from assay.judge import (
    RED,
    YARDSTICKS,
    Peak,
    References,
    Verdict,
    curves,
    judge,
    judge_ratios,
    of_peak,
    peak,
    published,
)
from assay.judge.reference_files import applies
from assay.parse import registry
from assay.run import strict
from assay.show import strength

ROOT = Path(__file__).resolve().parents[3]
#: A site that has stated no reference: nobody calibrated it.
SITE = ROOT / "site-config/new"
REFERENCES = References.load(SITE / "references.yaml")
FLOORS = published.read_floors(ROOT / "site-config/floors.yaml")
*_, PUBLISHED, ANY = YARDSTICKS
BY = (PUBLISHED, ANY)


class Number(NamedTuple):
    """A metric of a case on named hardware.

    :ivar times: what the peak in the unit of the catalogue is multiplied with; 0 for no peak.
    :ivar most: greatest share of the peak that a run takes for plausible.
    """

    test: str
    facts: str
    metric: str
    unit: str
    named: str
    of: str = ""
    times: float = 0
    most: float | None = 1.05

    @property
    def case(self):
        case = {"partition": "p", "environ": "e", "profile": "full", "test": self.test}
        words = dict(word.split("=") for word in self.facts.split())
        return {**case, **{k: int(v) if v.isdigit() else v for k, v in words.items()}}

    @property
    def hardware(self):
        return dict(word.split("=") for word in self.named.split())

    @property
    def peak(self):
        if not self.times:
            return None
        role, quantity = self.of.split(".")
        value = (
            1.0 if role in ("memory", "processor") else peak(SITE, self.hardware, role, quantity)
        )
        return Peak(self.named, value * self.times, self.most, self.of)

    @property
    def healthy(self):
        """The median of what healthy machines publish, in the unit of the metric."""
        floor = next(
            f for f in FLOORS
            if self.metric in f.metrics and applies(f.selector, self.case)
            and not (f.hardware and {*self.hardware.values()}.isdisjoint(f.hardware))
        )  # fmt: skip
        median = statistics.median(floor.shares)
        return median if floor.rule == "U" else median * self.peak.value

    def expected(self, by):
        known = (self.peak, self.hardware) if by == PUBLISHED else (None, {})
        return REFERENCES.find(self.case, self.metric, self.unit, *known)

    def judged(self, value, by):
        """What two launches with this value come to: what the peak allows, then the bounds."""
        if by == PUBLISHED and self.peak and self.most:
            ratios = {self.metric: of_peak("it has", value, self.peak, self.unit)}
            implausible = judge_ratios([ratios] * 2)
            if implausible.verdict in RED:
                return implausible
        return judge([value] * 2, self.expected(by))


HDR, NVLINK = "link=infiniband-hdr", "link=nvlink4-18-links"
MEMORY = "processor=epyc-rome memory=ddr4-3200"
NUMBERS = {
    "InfiniBand, rate": Number(
        "Osu", "benchmark=bw transport=rc_mlx5", "bandwidth_1MiB", "MB/s", HDR, "link.bandwidth", 1
    ),
    "InfiniBand, latency": Number(
        "Osu", "benchmark=latency transport=rc_mlx5", "latency_8B", "us", HDR
    ),
    "shared memory, latency": Number(
        "Osu", "benchmark=latency transport=posix", "latency_8B", "us", MEMORY
    ),
    "STREAM": Number("Stream", "", "triad", "MB/s", MEMORY, "memory.bandwidth", 409600),
    "HPL": Number(
        "Hpl", "", "performance", "GFLOP/s", "processor=skylake-sp", "processor.fp64", 3072, 1.575
    ),
    "HPCG": Number("Hpcg", "", "rating", "GFLOP/s", MEMORY, "memory.bandwidth", 409.6, None),
    "GPU memory": Number(
        "BabelStreamGpu", "", "triad_median", "MB/s", "gpu=h100-sxm5-80gb",
        "gpu.memory_bandwidth", 1000,
    ),
    "GPU HPL": Number(
        "GpuHplStudy", "", "performance", "GFLOP/s", "gpu=h100-sxm5-80gb", "gpu.fp64_matrix", 8
    ),
    "host to GPU": Number(
        "EachGpu", "", "host_to_device_median", "GB/s", "pcie=pcie-5-x16", "pcie.bandwidth", 1e-3
    ),
    "GPU to GPU": Number(
        "EachGpu", "", "between_gpus_median", "GB/s", NVLINK, "link.bandwidth", 1e-3
    ),
    "GPU to GPU, latency": Number(
        "OsuGpu", "benchmark=latency buffers=DD configuration=all", "latency_8B", "us", NVLINK
    ),
    "GPU allreduce, latency": Number(
        "OsuGpuCollective", "benchmark=allreduce gpus=4 configuration=all", "latency_8B", "us",
        NVLINK,
    ),
    "NCCL all_reduce": Number(
        "Nccl", "collective=all_reduce:default", "bus_bandwidth_1024MiB", "GB/s", NVLINK,
        "link.bandwidth", 1e-3, 1.75 * 1.05,
    ),
}  # fmt: skip

#: Fault -> number -> what it makes of it. PCIe has 0.9 of its rate at most; the lower generations
#: are HDR100 and NVLink 3. NCCL that left NVLink had 20 of 208 GB/s (NVIDIA/nccl-tests issue 178).
PHYSICAL = {
    "half slot": {"host to GPU": 0.5, "InfiniBand, rate": 0.9 * 15754 / 25000},
    "old generation": {
        "InfiniBand, rate": 0.5, "GPU to GPU": 300 / 450, "NCCL all_reduce": 300 / 450,
    },
    "half DIMMs": {"STREAM": 0.5, "HPCG": 0.5},
    "half clock": {"GPU HPL": 0.5, "HPL": 0.5},
    "sockets": {"NCCL all_reduce": 20 / 208},
}  # fmt: skip
SLOWER = {"/100": 100, "/1000": 1000}
FASTER = {"x100": 100, "x1000": 1000}


def faults(name):
    """Each fault that changes the number, and the factor of its value."""
    number = NUMBERS[name]
    slower = {k: v if number.unit == "us" else 1 / v for k, v in SLOWER.items()}
    faster = {k: 1 / v if number.unit == "us" else v for k, v in FASTER.items()}
    bits = {"Mbit": 8} if number.unit.endswith("B/s") else {}
    return {**slower, **faster, **bits, **{k: v[name] for k, v in PHYSICAL.items() if name in v}}


def passing(name, by):
    """The faults that stay green."""
    number = NUMBERS[name]
    return [
        fault for fault, factor in faults(name).items()
        if number.judged(number.healthy * factor, by).verdict not in RED
    ]  # fmt: skip


def least_loss(name, by):
    """The least factor of a loss that is red, by bisection of the verdict; None if none is."""
    number = NUMBERS[name]
    worse = (lambda f: f) if number.unit == "us" else (lambda f: 1 / f)
    red = lambda f: number.judged(number.healthy * worse(f), by).verdict in RED  # noqa: E731
    low, high = 1.0, 1e9
    if not red(high):
        return None
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if red(middle) else (middle, high)
    return high


HEAD = 'number,"least loss, hardware named",any machine,"green, hardware named"'


def table():
    """The lines of docs/first-day.csv."""
    yield HEAD
    said = lambda loss: "never" if loss is None else f"{loss:.3g}" if loss < 10 else f"{loss:.0f}"  # noqa: E731
    for name in NUMBERS:
        losses = (said(least_loss(name, by)) for by in BY)
        yield ",".join([f'"{name}"', *losses, f'"{", ".join(passing(name, PUBLISHED))}"'])


def test_the_table_of_the_first_day_is_in_the_documentation():
    written = (ROOT / "docs/first-day.csv").read_text().splitlines()
    assert written == [*table()], "write what `python tests/pure/judge/test_day_zero.py` prints"


#: What stays green although the hardware is named: docs/limits.md says why.
GREEN = {"HPCG": ["half DIMMs"], "GPU allreduce, latency": ["x100"]}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_fault_is_red_on_the_first_day_where_the_hardware_is_named(name):
    number = NUMBERS[name]
    assert number.judged(number.healthy, PUBLISHED).verdict is Verdict.PASS
    assert number.judged(number.healthy, ANY).verdict is Verdict.PASS
    assert number.expected(PUBLISHED).yardstick == PUBLISHED
    assert number.expected(ANY).yardstick == ANY
    assert passing(name, PUBLISHED) == GREEN.get(name, [])


def test_each_fault_changes_a_number_and_what_is_red_says_so():
    assert {fault for name in NUMBERS for fault in faults(name)} == {
        *SLOWER, *FASTER, *PHYSICAL, "Mbit",
    }  # fmt: skip
    rate = NUMBERS["InfiniBand, rate"]
    said = {
        fault: rate.judged(rate.healthy * factor, PUBLISHED).why
        for fault, factor in faults("InfiniBand, rate").items()
    }
    assert "look like Mbit/s" in said["Mbit"]
    for fault in ("half slot", "old generation", "/100"):
        assert "is below the lower bound 19500 MB/s" in said[fault], said[fault]


def test_nothing_of_the_hardware_is_known_without_a_name():
    slow = {name: {*faults(name)} & {*PHYSICAL} for name in NUMBERS}
    assert {name: {*passing(name, ANY)} & {*PHYSICAL} for name in NUMBERS} == slow
    most = {name: max(SLOWER.values()) < least_loss(name, ANY) for name in NUMBERS}
    assert [name for name, beyond in most.items() if not beyond] == [
        "InfiniBand, latency", "shared memory, latency", "GPU memory", "host to GPU",
    ]  # fmt: skip


def recorded(number, by, monkeypatch):
    """The record that a run writes of the healthy value."""
    monkeypatch.setattr(strict.site, "site_references", lambda: REFERENCES)
    known, hardware = (number.peak, number.hardware) if by == PUBLISHED else (None, {})
    place = SimpleNamespace(extras={"hardware": hardware}, fullname="site:p")
    case = SimpleNamespace(
        perf_variables={}, purpose="performance", _emulated=False, _unjudged={}, reference={},
        _keys=lambda: number.case, current_partition=place,
    )  # fmt: skip
    values = [number.healthy] * 2
    return strict.StrictCheck._judge_metric(case, number.metric, number.unit, values, known)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("name", NUMBERS)
def test_the_least_loss_of_a_record_is_that_which_turns_the_verdict_red(name, by, monkeypatch):
    said = recorded(NUMBERS[name], by, monkeypatch)
    assert (said.verdict, said.yardstick) == (Verdict.PASS, by)
    assert strength.least_loss(said) == pytest.approx(least_loss(name, by), rel=0.01)


CURVES = {
    "osu/osu_latency.5.7.np2.txt": ("point-to-point on shared cores", 100),
    "osu/osu_bw.5.7.np2.txt": ("point-to-point on shared cores", 0.01),
    "osu/osu_allreduce.7.2.np2.txt": ("collective", 100),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_constant_column_is_red_on_any_machine_and_a_curve_that_is_slow_as_a_whole_is_not(name):
    pattern, slow = CURVES[name]
    healthy = registry.parse_output((ROOT / "tests/data" / name).read_text()).rows
    column = curves.column(healthy)

    def judged(change):
        rows = [{**row, column: change(row[column])} for row in healthy]
        shape = curves.ratios(rows, pattern, pairs=1)
        return judge_ratios([shape] * 2, curves.best([rows] * 2, pattern))

    assert judged(lambda value: value).verdict is Verdict.PASS
    assert judged(lambda value: value * slow).verdict is Verdict.PASS
    constant = judged(lambda _: healthy[9][column])
    assert constant.verdict in RED
    assert "these times were not measured" in constant.why


if __name__ == "__main__":
    print(*table(), sep="\n")
