"""Ranks near their network device: what is refused, what the mapping should be, and the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import report_records as records
from ci import wanted

from assay.declared import Figure
from assay.show import figure, figures
from studies import growth
from studies.doc004 import nearness

# Made, in the form that near-device.sh writes: the test of the script has real files of it.
FILE = """\
host node1 allowed 0-7 chosen 0-3
device mlx5_0:1 near 0-3
device mlx5_1:1 near 4-7
"""
PLACE = nearness.parse(FILE)
PLACES = {"node1": PLACE}
LOW, HIGH = frozenset(range(4)), frozenset(range(4, 8))


def made(cpus):
    """A rank on node1 that may run on these processors."""
    return SimpleNamespace(host="node1", cpus=frozenset(cpus))


def test_a_file_names_the_processors_near_each_device():
    assert PLACE.near == {"mlx5_0:1": LOW, "mlx5_1:1": HIGH}
    assert nearness.mapping(PLACE) == {"0-3": "mlx5_0:1", "4-7": "mlx5_1:1"}


@pytest.mark.parametrize("text", ["", "host node1 allowed 0-7 chosen 0-3\n", FILE + "x\n", "\0"])
def test_a_file_that_ends_early_or_is_another_is_refused(text):
    with pytest.raises(ValueError):
        nearness.parse(text)


def test_a_device_without_a_place_and_a_host_without_a_file_are_named():
    place = nearness.parse(FILE.replace("near 4-7", "near"))
    found = nearness.unplaced([made([0])], {"node1": place})
    assert found == ["node1 does not say which processors are near mlx5_1:1"]
    elsewhere = {"node2": replace(PLACE, host="node2")}
    assert nearness.unplaced([made([0])], elsewhere) == [
        "node1: no rank wrote where its devices are"
    ]
    for ranks in ([], [made([0])]):
        (line,) = nearness.unplaced(ranks, {})
        assert line == "no rank wrote where its devices are: did near-device.sh start the ranks?"


def test_a_rank_on_the_other_side_is_named():
    assert nearness.wrong_side([made(LOW), made([1])], PLACES, nearness.NEAR) == []
    assert nearness.wrong_side([made(HIGH)], PLACES, nearness.FAR) == []
    (line,) = nearness.wrong_side([made([3, 4])], PLACES, nearness.NEAR)
    assert line == (
        "a rank on node1 may run on processors 3-4, near of mlx5_0:1 was asked for: near it are 0-3"
    )
    assert nearness.wrong_side([made([3, 4])], PLACES, nearness.FAR)
    assert nearness.wrong_side([made([])], PLACES, nearness.NEAR)


BOUND = [made([0]), made([1]), made([4]), made([5])]


def test_ranks_that_share_their_devices_as_they_are_bound_are_healthy():
    carried = {"node1": {"mlx5_0:1": 600, "mlx5_1:1": 400}}
    assert nearness.misplaced(BOUND, PLACES, carried) == []


def test_a_device_that_the_ranks_near_it_do_not_use_is_named():
    carried = {"node1": {"mlx5_0:1": 900, "mlx5_1:1": 100}}
    (line,) = nearness.misplaced(BOUND, PLACES, carried)
    assert line == (
        "2 of 4 ranks on node1 run near mlx5_1:1 (processors 4-7), which carried 10% of the bytes: "
        "the others took a far device"
    )


def test_devices_of_which_one_counts_nothing_are_not_compared():
    assert nearness.misplaced(BOUND, PLACES, {"node1": {"mlx5_0:1": 900}}) == []


def test_ranks_that_the_launcher_did_not_bind_are_named_with_the_mapping():
    carried = {"node1": {"mlx5_0:1": 500, "mlx5_1:1": 500}}
    (line,) = nearness.misplaced([made(range(8))] * 4, PLACES, carried)
    assert line == (
        "4 of 4 ranks on node1 are near no single device: the launcher must bind them to "
        "0-3 (mlx5_0:1) or 4-7 (mlx5_1:1)"
    )


def test_ranks_that_all_take_the_far_device_are_named_although_the_bytes_are_shared():
    ranks = {("node1", 1): made([0]), ("node1", 2): made([1]), ("node1", 3): made([4])}
    right = {("node1", 1): {"mlx5_0:1"}, ("node1", 2): {"mlx5_0:1"}, ("node1", 3): {"mlx5_1:1"}}
    assert nearness.far_lanes(ranks, PLACES, right) == []
    swapped = {process: {"mlx5_0:1", "mlx5_1:1"} - found for process, found in right.items()}
    assert nearness.far_lanes(ranks, PLACES, swapped) == [
        "ranks on node1 near mlx5_0:1 (processors 0-3) whose lanes to other ranks are all over "
        "mlx5_1:1: 2; UCX chose a far device",
        "ranks on node1 near mlx5_1:1 (processors 4-7) whose lanes to other ranks are all over "
        "mlx5_0:1: 1; UCX chose a far device",
    ]


def test_the_domain_of_a_host_does_not_hide_its_far_lanes():
    """UCX logs the name of a host up to its first dot, and the witness of a rank logs all of it."""
    name = "node1.cluster.example"
    rank, place = SimpleNamespace(host=name, cpus=frozenset([0])), {name: PLACES["node1"]}
    (line,) = nearness.far_lanes({(name, 1): rank}, place, {("node1", 1): {"mlx5_1:1"}})
    assert line.startswith(f"ranks on {name} near mlx5_0:1")


def test_ranks_whose_lanes_or_devices_decide_nothing_are_not_accused():
    both, far = {"mlx5_0:1", "mlx5_1:1"}, {"mlx5_1:1"}
    cases = [([0], both), ([0], ()), ([0, 4], far), ([], far), ([9], far)]
    for number, (cpus, taken) in enumerate(cases):
        process = ("node1", number)
        assert nearness.far_lanes({process: made(cpus)}, PLACES, {process: taken}) == []
    same = {"node1": nearness.parse(FILE.replace("near 4-7", "near 0-3"))}
    assert nearness.far_lanes({("node1", 1): made([0])}, same, {("node1", 1): far}) == []


def test_devices_on_one_side_are_one():
    same = nearness.parse(FILE.replace("near 4-7", "near 0-3"))
    carried = {"node1": {"mlx5_0:1": 1000, "mlx5_1:1": 0}}
    assert nearness.misplaced([made([0]), made([1])], {"node1": same}, carried) == []


def test_a_gain_is_how_much_better_the_near_device_is():
    assert nearness.gain(100.0, 132.0, "us") == pytest.approx(32)
    assert nearness.gain(14000.0, 10000.0, "MB/s") == pytest.approx(40)
    assert nearness.reversed_({"bw": 40.0, "latency": -9.0}) == []
    (line,) = nearness.reversed_({"bw": -20.0})
    assert line.startswith("bw: the near device is 20 % worse than the far one")


def test_each_rail_must_add_its_bandwidth():
    assert growth.stalls({1: 12e3, 2: 23e3, 4: 44e3}, "rails", "MB/s", float("inf")) == []
    (line,) = growth.stalls({1: 12e3, 2: 23e3, 4: 30e3}, "rails", "MB/s", float("inf"))
    assert line.startswith("4 rails reach 30000 MB/s together, 1 reach 12000 MB/s")


AT = "process affinity"
FIGURES = Path(nearness.__file__).with_name("figures.yaml")


def test_the_figures_of_the_document_are_drawn():
    far = [
        {"line": name, "message_size": size, "near_value": 1.0, "far_value": 0.7, "far": 70.0}
        for name in ("latency", "bw")
        for size in (8, 1024)
    ]
    rails = [{"line": "1 MiB", "rails": n, "bandwidth": 12e3 * n} for n in (1, 2, 4)]
    cases = [
        msgspec.structs.replace(
            records.case(name, rows, units, family="assay"), figures=(declared,)
        )
        for name, rows, units, declared in (
            ("Far", far, {"message_size": "B", "far": "%"},
             Figure("lines", "far as a part of near over message size", AT, "far",
                    over="message_size")),
            ("Rails", rails, {"rails": "1", "bandwidth": "MB/s"},
             Figure("lines", "bandwidth over rails", AT, "bandwidth", over="rails")),
        )
    ]  # fmt: skip
    drawn = figure.all_figures(figures.sections(cases))
    assert [one.table[0] for one in drawn] == [
        ("message size", "latency [%]", "bw [%]"), ("rails", "1 MiB [MB/s]"),
    ]  # fmt: skip
    assert not [a for a in wanted.absent(cases, drawn, [FIGURES]) if a.at == AT]
    (missing,) = [a for a in wanted.absent(cases[:1], drawn[:1], [FIGURES]) if a.at == AT]
    assert missing.figure == "bandwidth over rails"


def test_ranks_of_a_numa_node_without_a_device_are_not_accused():
    carried = {"node1": {"mlx5_0:1": 250, "mlx5_1:1": 250}}
    far = [made(range(8, 12)), made(range(12, 16))]
    assert nearness.misplaced([*BOUND, *far], PLACES, carried) == []
