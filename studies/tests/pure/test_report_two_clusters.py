"""The figures of two clusters over a long link: partitions in one figure, columns as lines."""

from __future__ import annotations

from pathlib import Path

import report_records as records
from ci import wanted
from msgspec.structs import replace

from assay.declared import Figure
from assay.show import figure, figures, plots
from studies.doc003 import link_fit

AT = "two clusters"
PINGPONG = [Figure("partitions", f"PingPong: {c}", AT, c) for c in ("latency", "bandwidth")]
PAIRS = Figure("lines", "rates of simultaneous pairs", AT, "together", over="pairs")
UNITS = {"size": "B", "repetitions": "1", "latency": "us", "bandwidth": "MB/s"}


def pingpong(partition, start, rate, **others):
    times = {1 << k: start + (1 << k) / rate for k in range(31)}
    rows = [
        {"size": size, "repetitions": 10, "latency": time, "bandwidth": size / time}
        for size, time in times.items()
    ]
    case = records.case(
        "PingPong", rows, UNITS, partition=partition, transport="tcp", family="own",
        program="PingPong", **others,
    )  # fmt: skip
    return replace(case, figures=tuple(PINGPONG))


def pairs(**others):
    rows = [
        {"line": line, "pairs": k, "together": min(118.0 * k, most), "latency": 2.0}
        for line, most in (("within", 1e9), ("across", 190.0))
        for k in (1, 2, 4)
    ]
    units = {"pairs": "1", "together": "MB/s", "latency": "us"}
    case = records.case("Pairs", rows, units, partition="across", family="assay", **others)
    return replace(case, figures=(PAIRS,))


def hpl():
    law = link_fit.of_hpl(192)

    def run(p, n, across, latency, rate):
        time = law.work(p, n) / 5e9 + law.messages(p, n) * latency + law.volume(p, n) / rate
        return link_fit.Run(p, n, time, across)

    orders = (2500, 10_000, 40_000)
    runs = [run(p, n, False, 2e-6, 1.3e9) for p in (1, 4, 16, 64) for n in orders]
    runs += [run(p, n, True, 145e-6, 9.3e8) for p in (8, 32, 128) for n in orders]
    rows = link_fit.speed_ups(runs, link_fit.fit(runs, law))
    units = {"processes": "1", "speed_up": "1"}
    case = records.case("FromHpl", rows, units, partition="across", kind="compute", family="assay")
    declared = [
        Figure("lines", name, AT, "speed_up", over="processes") for name in link_fit.FIGURES
    ]
    return replace(case, figures=tuple(declared))


def drawn(*cases):
    return figure.all_figures(figures.sections(cases))


def test_partitions_that_belong_together_are_lines_of_one_figure():
    found = drawn(pingpong("east", 2.0, 1400.0), pingpong("across", 145.0, 930.0))
    assert [one.shows for one in found] == [
        {("PingPong: bandwidth", AT)},
        {("PingPong: latency", AT)},
    ]
    for one in found:
        assert [cell.split(" [")[0] for cell in one.table[0]] == ["size", "across", "east"]
        assert "1\N{NO-BREAK SPACE}GiB" in one.description


def test_a_partition_that_was_not_measured_is_named():
    skipped = records.case("PingPong", partition="across", transport="tcp", skipped="no nodes")
    found = drawn(pingpong("east", 2.0, 1400.0), replace(skipped, figures=tuple(PINGPONG)))
    assert [dict(one.missing) for one in found] == [{"across": "not run: no nodes"}] * 2


def test_rates_of_more_and_more_pairs_have_a_line_for_each_place():
    (found,) = drawn(pairs())
    assert found.shows == {("rates of simultaneous pairs", AT)}
    assert found.table[0] == ("pairs", "within [MB/s]", "across [MB/s]")
    assert found.table[-1] == ("4", "472", "190")


def test_columns_over_a_size_have_binary_units_and_a_scale_on_which_all_can_be_read():
    def frames(column, unit, *values):
        rows = [
            {"line": "0 %", "frame_size": size, column: value}
            for size, value in zip((64, 4096, 1 << 20), values)
        ]
        units = {"frame_size": "B", column: unit}
        case = records.case("Stream", rows, units, partition="here", path="tcp", family="own")
        shown = Figure("lines", "of a stream", "streaming", column, over="frame_size")
        (found,) = drawn(replace(case, figures=(shown,)))
        return found, found.canvas.axes[0]

    found, axes = frames("rate", "1/s", 90_000.0, 40_000.0, 30.0)
    assert axes.get_yscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        text.replace(" ", "\N{NO-BREAK SPACE}") for text in ("64 B", "4 KiB", "1 MiB")
    ]
    assert (axes.get_xlabel(), found.numbers[0][1]) == ("frame size", "frame size [B]")
    assert "tcp" in found.title  # the cases of other transports have a title of their own
    assert found.caption == "Higher is better."
    _, axes = frames("rate", "1/s", 900.0, 400.0, 30.0)
    assert axes.get_yscale() == "linear"
    part, _ = frames("of_nack", "%", 100.0, 90.0, 120.0)
    assert part.caption == "At 100 % both are equal."


def test_a_run_that_failed_is_not_drawn():
    assert drawn(pairs(problems=["the bytes took another way"])) == []


def test_hpl_over_both_clusters_has_the_figures_of_the_document():
    found = drawn(hpl())
    assert {name for one in found for name, _ in one.shows} == {*link_fit.FIGURES}
    wider = next(one for one in found if (link_fit.WIDER, AT) in one.shows)
    assert len(wider.table[0]) == 1 + len(link_fit.WIDENED)


FIGURES = Path(link_fit.__file__).with_name("figures.yaml")


def test_a_run_for_the_study_lacks_what_it_did_not_measure_and_others_lack_nothing():
    found = [pairs()]
    missing = {a.figure for a in wanted.absent(found, drawn(*found), [FIGURES]) if a.at == AT}
    assert missing == {"PingPong: latency", "PingPong: bandwidth", *link_fit.FIGURES}
    of_the_suite = [FIGURES.parents[1] / "figures.yaml"]
    assert not [item for item in wanted.wanted(found, of_the_suite) if item.at == AT]
    everything = [pairs(), hpl(), pingpong("east", 2.0, 1400.0)]
    lacking = wanted.absent(everything, drawn(*everything), [FIGURES])
    assert not [a for a in lacking if a.at == AT]


def test_long_labels_have_room():
    counts = [2**k for k in range(1, 13)]
    assert plots._apart(counts, 14) == counts
    assert plots._apart(counts, 9) == counts[::2]
    sizes = [2**k for k in range(21)]
    assert len(plots._apart(sizes, plots.MOST_SIZES)) <= plots.MOST_SIZES
