"""Nodes with many cores: numbers of pairs and nodes, rates that must grow, and the figures."""

from __future__ import annotations

from pathlib import Path

import pytest
import report_records as records
from ci import wanted
from msgspec.structs import replace

from assay.declared import Figure
from assay.show import figure, figures
from assay.workloads.sizing import SizingError, usable_ranks
from studies import growth
from studies.doc002 import counts
from studies.doc002.counts import ALL

BETWEEN = ({"inter-node"}, {"nodes": 8, "cores_per_node": 12})
WITHIN = ({"intra-node"}, {})


@pytest.mark.parametrize(
    "cores,where,pairs",
    [(24, WITHIN, [1, 2, 4, 8, 12]), (24, BETWEEN, [1, 2, 4, 8, 12]), (16, WITHIN, [1, 2, 4, 8]),
     (2, WITHIN, [1]), (1, WITHIN, [])],
)  # fmt: skip
def test_pairs_double_up_to_all_cores_and_none_is_measured_twice(cores, where, pairs):
    here = [counts.pairs_here(n, cores, *where) for n in counts.PAIRS]
    assert [n for n in here if n] == pairs


def test_a_pair_for_all_cores_is_two_ranks_for_two_cores():
    assert counts.ranks_of(ALL, 13) == 12
    assert counts.ranks_of(4, 64) == 8
    with pytest.raises(SizingError):
        counts.ranks_of(ALL, 1)


def test_a_study_over_nodes_leaves_out_what_the_partition_cannot_run():
    def runs(nodes, *words, **extras):
        where = {"inter-node", *words}, {"nodes": 4, **extras}
        return counts.runs_over(nodes, 4, *where, lambda cores: max(2, usable_ranks(cores)))

    assert [runs(n) for n in (1, 2, 4, 8)] == [True, True, True, False]
    assert not runs(1, "across")
    assert runs(2, "across")
    # One rank on one node measures no network.
    assert not runs(1, cores_per_node=1)
    assert runs(2, cores_per_node=1)


def test_messages_of_a_latency_are_those_of_all_pairs():
    rows = [{"pairs": 4, "message_size": 8, "latency": 2.0}]
    assert counts.message_rates(rows, 8) == {4: 2e6}
    assert counts.message_rates(rows, 16) == {}
    rows = [{"pairs": 4, "message_size": 8, "messages_per_s": 3e6}]
    assert counts.message_rates(rows, 8) == {4: 3e6}


#: Pairs that double the rate until a limit of 5 is reached.
HEALTHY = {1: 1.0, 2: 2.0, 4: 4.0, 8: 5.0, 16: 4.9}


def test_rates_that_grow_to_a_limit_and_stay_there_are_healthy():
    assert growth.falls(HEALTHY, "pairs", "1/s") == []
    assert growth.stalls(HEALTHY, "pairs", "1/s") == []
    assert growth.stalls(HEALTHY, "pairs", "1/s", 5.0) == []
    assert growth.stalls({4: 1.0}, "pairs", "1/s", 5.0) == []


def test_more_pairs_that_are_slower_are_named_with_the_count_that_was_faster():
    (line,) = growth.falls({**HEALTHY, 16: 4.0}, "pairs", "messages/s")
    assert line == (
        "16 pairs reach 4 messages/s together, 8 pairs reach 5 messages/s: more of them must not "
        "be slower"
    )


def test_a_second_pair_that_adds_nothing_is_named_although_nothing_falls():
    shared = dict.fromkeys(HEALTHY, 1.0)
    assert growth.falls(shared, "pairs", "1/s") == []
    (line,) = growth.stalls(shared, "pairs", "1/s")
    assert line.startswith("2 pairs reach 1 1/s together, 1 reach 1 1/s: at least 1.25 1/s")


def test_pairs_that_do_not_fill_the_link_are_named():
    half = {1: 1.0, 2: 2.0, 4: 2.5, 8: 2.5}
    assert growth.stalls(half, "pairs", "MB/s") == []
    named = growth.stalls(half, "pairs", "MB/s", 5.0)
    assert [line.split()[0] for line in named] == ["4", "8"]


AT = "many cores"
FIGURES = Path(counts.__file__).with_name("figures.yaml")
OVER_PAIRS = Figure("lines", "message rate over pairs", AT, "messages_per_s", over="pairs")
HPCC = {
    "ring latency over ranks": "latency",
    "ring bandwidth over ranks": "bandwidth",
    "PTRANS over ranks": "ptrans",
    "RandomAccess over ranks": "random_access",
}


def pairs():
    rows = [
        {"line": f"{size} B", "message_size": size, "pairs": n, "messages_per_s": n * 1e6}
        for size in (8, 1024)
        for n in (1, 2, 4)
    ]
    units = {"message_size": "B", "pairs": "1", "messages_per_s": "1/s"}
    case = records.case("Pairs", rows, units, partition="node", family="assay")
    return replace(case, figures=(OVER_PAIRS,))


def hpcc():
    rows = [
        {"line": "ib", "nodes": n, "ranks": 4 * n, "latency": 1.0 + n, "bandwidth": 1.0,
         "ptrans": 2.0 * n, "random_access": 0.01 * n}
        for n in (1, 2, 4)
    ]  # fmt: skip
    units = {"nodes": "1", "ranks": "1", "latency": "us", "bandwidth": "GB/s", "ptrans": "GB/s",
             "random_access": "GUP/s"}  # fmt: skip
    case = records.case("OverRanks", rows, units, partition="ib", kind="compute", family="assay")
    declared = [Figure("lines", name, AT, column, over="ranks") for name, column in HPCC.items()]
    return replace(case, figures=tuple(declared))


def test_each_figure_of_the_document_is_drawn_and_what_is_missing_is_named():
    cases = [pairs(), hpcc()]
    drawn = figure.all_figures(figures.sections(cases))
    shown = {key for found in drawn for key in found.shows}
    assert shown == {(name, AT) for name in (OVER_PAIRS.name, *HPCC)}
    (rate,) = [found for found in drawn if (OVER_PAIRS.name, AT) in found.shows]
    assert rate.table[0] == ("pairs", "8 B [1/s]", "1024 B [1/s]")
    assert rate.table[-1][0] == "4"
    missing = {a.figure for a in wanted.absent(cases, drawn, [FIGURES]) if a.at == AT}
    assert missing == {"multi-pair latency over pairs"}
