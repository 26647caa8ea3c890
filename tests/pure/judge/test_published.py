"""The numbers of others: floors.yaml and any-machine.yaml, checked without the judge.

Published thresholds are wrong often enough to need it: of one vendor's table, five rows could never
alarm, and two systems of the TOP500 state twice or two thirds of their peak.
"""

import copy
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from reframe.core.runtime import temp_runtime

from assay import metrics
from assay.judge import published
from assay.reframe_compat import testcase

ROOT = Path(__file__).resolve().parents[3]
SITES = ROOT / "site-config"
FLOORS = yaml.safe_load((SITES / "floors.yaml").read_text())["floors"]
ANY = yaml.safe_load((SITES / "any-machine.yaml").read_text())["references"]

#: The least share of a peak that healthy hardware has. HPCG has GFLOP/s for each GB/s: a nonzero
#: takes 12 B for two FLOP.
LEAST = {"Hpcg": 0.05}

#: A file of a public repository at a commit, or a page.
SOURCE = re.compile(r"[\w.-]+/[\w.-]+ [0-9a-f]{7} [^ ]+(, [^ ]+)?|https://[^ ]+")

#: Metrics that are neither good nor bad.
COUNTS = {("NodeHealth", "load_per_cpu"), ("NodeHealth", "memory_available"), ("Census", "nodes")}


def listed(value):
    return value if isinstance(value, list) else [value]


def applies(wanted, case):
    return all("*" in listed(v) or case.get(k) in listed(v) for k, v in wanted.items())


def faults(floor):
    """What is wrong with a floor, one line each."""
    rule, time = floor["rule"], floor["rule"] == "U"
    counted = [each for each in floor["results"] if each.get("counts", True)]
    shares = sorted(each["value"] / (1 if time else each["of"]) for each in counted)
    owners, spread = len({each["owner"] for each in counted}), shares[-1] / shares[0]
    for each in floor["results"]:
        if not SOURCE.fullmatch(each["source"]):
            yield f"{each['system']}: {each['source']!r} is no file of a commit, and no page"
        if not re.fullmatch(r"20\d\d(-\d\d)?", each["date"]):
            yield f"{each['system']}: the date {each['date']!r}"
        if not each.get("counts", True) and len(each.get("note", "")) < 8:
            yield f"{each['system']}: does not count, and no note says why"
    if rule in "ABC":
        least = LEAST.get("-".join(listed(floor["for"]["test"])), 0.3)
        yield from (f"a share of {s:.2f} of the peak" for s in shares if not least <= s <= 1)
        if shares[-1] > floor.get("above", 1.05):
            yield f"a healthy result lies above the ceiling of {floor['above']}"
    if rule in "AU" and owners < 3:
        yield f"{owners} owners are too few for {rule}"
    if {"A": spread > 1.6, "D": spread <= 1.6}.get(rule):
        yield f"a spread of {spread:.2f} is not of rule {rule}"
    if rule == "B" and len(counted) < 7:
        yield f"{len(counted)} results are too few for B"
    if "above" in floor and "Ceiling: " not in floor["why"]:
        yield "the ceiling has no argument"


@cache
def cases():
    """Each case of the suite with its metrics and their units, on partitions of two names."""
    found = []
    with temp_runtime("<builtin>", "generic"):
        for path in sorted(ROOT.glob("reframe/*/*.py")):
            for test, variants in testcase.declared(path):
                for given, named in variants:
                    made = test(*given, **{**named, "reset_sysenv": 0})
                    units = dict(made.declares)
                    if "bus_bandwidth_1024MiB" in units:  # NCCL takes a smaller size in one profile
                        units["bus_bandwidth_64MiB"] = units["bus_bandwidth_1024MiB"]
                    for where in ("intra-node", "another"):
                        for profile in ("smoke", "full"):
                            case = {**made.identity(), "partition": where, "profile": profile}
                            found.append((case, units))
    return found


def unbounded(entries):
    """Test and metric of each number that no entry bounds on any machine."""
    return {
        (case["test"], metric)
        for case, units in cases()
        for metric in units
        if not any(metric in each["metrics"] and applies(each["for"], case) for each in entries)
    }


def bounds(said):
    """The two bounds of a metric, None where there is none, and the unit."""
    if isinstance(said, dict):
        low, high = (None if said[k] is None else said["value"] * (1 + said[k]) for k in WAYS)
        return low, high, said["unit"]
    first, *_, last, unit = said.split()
    return (None if first == "<=" else float(first)), float(last), unit


WAYS = ("lower", "upper")


@pytest.mark.parametrize(
    "floor", FLOORS, ids=lambda f: f"{f['rule']} {'-'.join(listed(f['for']['test']))}"
)
def test_each_floor_follows_from_results_with_a_source(floor):
    assert [*faults(floor)] == []
    wanted = [units for case, units in cases() if applies(floor["for"], case)]
    for metric in floor["metrics"]:
        assert any(metric in units for units in wanted), f"no test has {metric}"


def with_results(rule, **change):
    """The first floor of a rule, with a change in each of its results."""
    floor = copy.deepcopy(next(each for each in FLOORS if each["rule"] == rule))
    floor["results"] = [{**each, **change} for each in floor["results"]]
    return floor


@pytest.mark.parametrize(
    ("floor", "said"),
    [
        (with_results("A", owner="one"), "1 owners are too few for A"),
        (with_results("U", owner="one"), "1 owners are too few for U"),
        (with_results("A", value=1), "a share of 0.00 of the peak"),
        (with_results("C", value=100000), "of the peak"),
        (with_results("A", source="a friend"), "'a friend' is no file of a commit"),
        (with_results("A", date="soon"), "the date 'soon'"),
        ({**with_results("A"), "why": "because"}, "the ceiling has no argument"),
        (with_results("D", value=5, of=10), "a spread of 1.00 is not of rule D"),
        ({**with_results("C"), "rule": "B"}, "too few for B"),
        (with_results("A", note="", counts=False), "no note says why"),
    ],
)
def test_a_floor_that_does_not_follow_is_named(floor, said):
    floor["results"].append({**floor["results"][0], "counts": True})
    assert any(said in fault for fault in faults(floor)), [*faults(floor)]


def beyond(floor):
    """Of each pair of owners, how far a result of one lies below the weak floor of the other."""
    of = {}
    for each in floor["results"]:
        if each.get("counts", True):
            of.setdefault(each["owner"], []).append(each["value"] / each["of"])
    return [0.85 * min(a) / min(b) for x, a in of.items() for y, b in of.items() if x != y]


def test_a_healthy_machine_is_not_far_below_a_weak_floor_of_another_owner():
    far = [each for floor in FLOORS if floor["rule"] in "ABC" for each in beyond(floor)]
    assert len(far) > 300
    assert max(far) < published.FAR / 2, "a weak floor makes red what is FAR times below it"


def test_a_floor_names_hardware_of_the_catalogue():
    known = {name for path in SITES.glob("hardware/*.yaml") for name in yaml.safe_load(path.open())}
    named = {name for floor in FLOORS for name in floor.get("hardware", ())}
    assert not known or named <= known, f"not in the catalogue: {sorted(named - known)}"


def test_every_number_of_every_test_has_a_bound_on_any_machine():
    assert unbounded(ANY) == COUNTS
    assert ("Hpl", "performance") in unbounded([e for e in ANY if "Hpl" not in e["for"]["test"]])


@pytest.mark.parametrize("entry", ANY, ids=lambda e: "-".join(listed(e["for"]["test"])))
def test_each_bound_is_of_a_metric_with_its_unit(entry):
    wanted = [units for case, units in cases() if applies(entry["for"], case)]
    for metric, said in entry["metrics"].items():
        low, high, unit = bounds(said)
        assert {units[metric] for units in wanted if metric in units} == {unit}, metric
        assert low is None or high is None or low < high, metric
        fault = metrics.fault(unit)
        assert {"lower": low, "upper": high}.get(fault, 1) is not None, metric


@pytest.mark.parametrize(
    ("case", "metric", "healthy", "broken"),
    [
        # Two shared cores, an old disk, and what was put in: a wrong unit, a copy of nothing.
        ({"test": "Osu", "benchmark": "bw", "transport": "posix"}, "bandwidth_1MiB",
         (1600, 39500), (0.03, 3_300_000)),
        ({"test": "Osu", "benchmark": "latency", "transport": "posix"}, "latency_8B",
         (0.11, 90), (0.0005, 5000)),
        ({"test": "NetPipe", "transport": "tcp"}, "latency_8B", (4, 300), (0.04, 30000)),
        ({"test": "NetPipe", "transport": "tcp"}, "bandwidth_1MiB", (11, 24000), (0.1, 900_000)),
        ({"test": "Hpcc"}, "dgemm_star", (1, 60), (0.001, 6000)),
        ({"test": "Hpcc"}, "hpl_per_dgemm", (0.1, 1.6), (0.0001, 8)),
        ({"test": "SharedMemoryAgainstTcp"}, "latency_tcp_per_shared", (4.2, 400), (1,)),
        ({"test": "EachCore"}, "dgemm_worst", (0.5, 100), (0.001, 1000)),
        ({"test": "Stream"}, "triad", (2000, 1_730_000), (20, 28_000_000)),
        ({"test": "Iozone"}, "write", (400, 41_000_000), (1, 1_000_000_000)),
        ({"test": "Ior"}, "write", (12.9, 521_000), (0.01, 100_000_000)),
        ({"test": "BtIo"}, "io_share", (1, 99.9), (101,)),
    ],
)  # fmt: skip
def test_the_bounds_hold_for_slow_and_fast_healthy_machines(case, metric, healthy, broken):
    where = {"partition": "intra-node", "profile": "smoke", **case}
    entry = next(e for e in ANY if metric in e["metrics"] and applies(e["for"], where))
    low, high, _ = bounds(entry["metrics"][metric])
    inside = [(low or 0) <= value <= (high or value) for value in (*healthy, *broken)]
    assert inside == [True] * len(healthy) + [False] * len(broken)
