"""The figures of a validation: which ones exist, and why others were not measured."""

from __future__ import annotations

from functools import cache

import pytest
import report_records as records
from ci import wanted
from matplotlib import colors
from msgspec.structs import replace
from shell import ROOT

from assay import declared
from assay.gpu.gpu_paths import CONFIGURATIONS
from assay.show import figure, figures, plots, validation
from assay.store.session import ReportError
from studies.validation import GPUS, HOSTS

CLUSTER = records.cluster()
LISTS = [ROOT / "studies/figures.yaml"]
BTIO_TIME = "BT-IO: total time and time of I/O"


def absent(cases):
    drawn = figure.all_figures(figures.sections(cases))
    return wanted.absent(cases, drawn, LISTS)


def whole(cases):
    return {(a.figure, a.at): a.why for a in absent(cases) if not a.part}


@cache
def of_cluster():
    """The drawn figures of the cluster, and the missing ones."""
    return figure.all_figures(figures.sections(CLUSTER)), whole(CLUSTER)


def test_of_an_empty_session_every_figure_is_missing():
    missing = whole([])
    every = wanted.wanted([], LISTS)
    assert set(missing) == {(item.figure, item.at) for item in every}
    assert set(missing.values()) == {"no case was selected"}
    # Two curves and five collectives at three places, four figures of HPL for each of two programs,
    # and three figures each of IOzone and of BT-IO.
    assert len(missing) == 7 * 3 + 4 * 2 + 3 + 3


def test_what_was_drawn_is_not_missing():
    drawn, missing = of_cluster()
    shown = {key for found in drawn for key in found.shows}
    assert shown.isdisjoint(missing)
    every = {(item.figure, item.at) for item in wanted.wanted(CLUSTER, LISTS)}
    assert shown <= every
    assert shown | set(missing) == every


def test_each_file_system_has_its_figures():
    _, missing = of_cluster()
    assert (BTIO_TIME, "nvme") in missing
    assert (BTIO_TIME, "lustre-hdd") not in missing
    assert not [key for key in missing if key[0].startswith("IOzone")]


def test_a_figure_whose_cases_were_skipped_or_failed_has_their_reason():
    cases = [
        records.case("OsuGpu", benchmark="latency", buffers="DD", configuration="no-ipc",
                     skipped="this stack does not say which UCX it has"),
        records.osu("OsuGpuCollective", "bcast", 1, 1, gpus=2, configuration="no-ipc",
                    problems=["UCX's log does not show what carried the messages"]),
    ]  # fmt: skip
    missing = whole(cases)
    at = "between GPUs in a node"
    assert missing["point to point: latency", at].startswith("not run: this stack does not say")
    assert missing["bcast", at].startswith("failed: UCX's log does not show")
    assert missing["point to point: bandwidth", at] == "no case was selected"
    assert missing["bcast", "between GPUs between nodes"] == "no case was selected"


def test_a_case_whose_place_nobody_knows_is_a_reason_at_either():
    skipped = records.case("OsuGpu", benchmark="latency", buffers="DD", configuration="all",
                           skipped="2 GPUs are needed")  # fmt: skip
    missing = whole([skipped])
    for place in (validation.IN_NODE, validation.BETWEEN):
        assert missing["point to point: latency", f"between GPUs {place}"].startswith("not run: 2")


def test_a_study_without_peak_lacks_the_fraction_and_says_so():
    missing = whole([records.hpl(p, {1000: 8.0 / p}) for p in (1, 2)])
    of_hpl = {key[0]: why for key, why in missing.items() if key[1] == "HPL"}
    assert list(of_hpl.values()) == ["the peak performance of the nodes is not known"]


def test_a_speed_up_that_is_missing_has_the_reason_of_the_cases_that_are_too():
    cases = [records.hpl(1, {1000: 8.0}), records.hpl(2, {}, skipped="2 nodes are needed")]
    assert whole(cases)["speed-up S(P, N)", "HPL"] == (
        "no N was solved both on one node and on several; not run: 2 nodes are needed"
    )


def test_several_reasons_are_counted():
    cases = [records.hpl(p, {}, skipped=f"{p} nodes are needed") for p in (4, 8, 16)]
    assert whole(cases)["execution time T(P, N)", "HPL"] == (
        "not run: 4 nodes are needed (and 2 more reasons)"
    )


def test_the_place_is_where_the_ranks_ran_before_what_a_configuration_says():
    ran = records.osu("OsuGpu", "latency", 1, 1, configuration="all", hosts=2, partition="x")
    planned = records.case("OsuGpu", configuration="no-ipc", partition="y", skipped="no")
    nothing = records.case("OsuGpu", configuration="all", partition="z", skipped="no")
    found = validation.of_partitions([ran, planned, nothing])
    assert found == {("cluster", "x"): validation.BETWEEN, ("cluster", "y"): validation.IN_NODE}


def test_configurations_are_those_that_the_place_would_notice():
    for place, words in ((validation.IN_NODE, "intra-node"), (validation.BETWEEN, "inter-node")):
        assert validation.configurations(place) == [
            name for name, c in CONFIGURATIONS.items() if words in c.places
        ]


def curve(cases, *words):
    """The one figure of messages by size whose name has these words."""
    (found,) = [
        one
        for of_kind in figures.curves(cases).values()
        for one in of_kind
        if set(words) <= set(one.name.split())
    ]
    return found


def test_gpu_figures_have_a_line_for_each_configuration_of_each_pair_of_buffers():
    cases = [
        records.osu("OsuGpu", "latency", 1, 1, buffers=buffers, configuration=way)
        for buffers in ("DD", "DH", "HD")
        for way in records.INTRA
    ] + [records.osu("OsuGpu", "latency", 1, 1, buffers="HH", configuration="all")]
    drawn = {f.title.split(", ")[1]: f.drawing.lines for f in figures.curves(cases)["curve"]}
    assert {between: [line.way for line in lines] for between, lines in drawn.items()} == {
        **{f"{between} in a node": sorted(records.INTRA)
           for between in ("GPU to GPU", "GPU to host", "host to GPU")},
        "host to host in a node": ["all"],
    }  # fmt: skip
    titles = [f.title for f in figure.all_figures(figures.sections(cases))]
    assert len(set(titles)) == 4
    assert sum("GPU to GPU in a node" in title for title in titles) == 1


def test_a_drawing_is_the_figure_that_its_test_declares_at_a_place_that_is_known():
    at_gpus, at_hosts = (declared.Figure("curve", "f", at) for at in (GPUS, HOSTS))
    assert validation.shows([at_gpus], "p", validation.IN_NODE) == {("f", "between GPUs in a node")}
    assert validation.shows([at_gpus], "p", "") == frozenset()
    assert validation.shows([at_hosts], "p", "") == {("f", "between hosts")}
    for elsewhere in (declared.Figure("curve", "f"), declared.Figure("curve", "", HOSTS)):
        assert validation.shows([elsewhere], "p", validation.IN_NODE) == frozenset()


def test_the_report_finds_the_cases_of_a_figure_by_what_their_tests_declare():
    """The name of a test does not matter: another test may declare the same figure."""
    other = replace(records.osu("Osu", "bw", 1, 1, transport="posix"), test="AnotherTest")
    lost = replace(
        records.case("Osu", benchmark="latency", skipped="no such program"), test="OneMore"
    )
    missing = {(a.figure, a.at): a for a in absent([other, lost]) if not a.part}
    assert ("point to point: bandwidth", "between hosts") not in missing
    found = missing["point to point: latency", "between hosts"]
    assert (found.test, found.why) == ("OneMore", "not run: no such program")
    assert missing["bcast", "between hosts"].test == ""


def test_the_marker_of_a_collective_is_its_number_of_ranks_and_the_colour_its_way():
    found = curve(CLUSTER, "bcast", "gpu")
    ways = sorted(records.INTRA)
    canvas = found.canvas
    looks = {}
    for line, drawn in zip(found.drawing.lines, canvas.axes[0].get_lines()):
        looks[line.way, line.ranks] = (colors.to_hex(drawn.get_color()), drawn.get_marker())
    assert len(looks) == 12
    assert {ranks: marker for (_, ranks), (_, marker) in looks.items()} == {
        "2": "s", "3": "D", "4": "v",
    }  # fmt: skip
    by_way = {way: {c for (w, _), (c, _) in looks.items() if w == way} for way in ways}
    assert all(len(found) == 1 for found in by_way.values())
    assert len(set.union(*by_way.values())) == len(ways)
    (legend,) = canvas.legends
    words = {text.get_text() for text in legend.get_texts()} - {" "}
    assert words == {*ways, "P = 2", "P = 3", "P = 4"}


def test_a_collective_on_hosts_is_drawn_by_transport_and_number_of_ranks():
    cases = [
        records.osu("OsuCollective", "gather", 1, 1, ranks=r, transport=t, partition="intra-node")
        for r in (2, 3)
        for t in ("posix", "cma")
    ]
    lines = curve(cases, "gather").drawing.lines
    assert {(line.way, line.ranks) for line in lines} == {
        ("posix", "2"), ("posix", "3"), ("cma", "2"), ("cma", "3"),
    }  # fmt: skip
    (missing,) = [a for a in absent(cases) if a.part]
    assert (missing.part, missing.why) == ("P = 4", "no case was selected")


def test_collectives_of_two_stacks_are_two_figures():
    cases = [
        records.osu("OsuCollective", "gather", 1, 1, ranks=2, transport="posix", environ=environ)
        for environ in ("spack", "container")
    ]
    names = [f.name for f in figure.all_figures(figures.sections(cases))]
    assert names == [
        "OsuCollective gather  gpu container", "OsuCollective gather  gpu spack",
    ]  # fmt: skip


def test_what_is_missing_of_a_figure_is_named_in_its_caption_alone():
    place = ("point to point: latency", "between GPUs in a node")
    (found,) = (f for f in of_cluster()[0] if place in f.shows)
    assert "no-ipc (failed: no lane of cuda_ipc" in found.caption
    (legend,) = found.canvas.legends
    assert "no-ipc" not in [text.get_text() for text in legend.get_texts()]


def test_a_curve_without_proof_is_not_drawn_and_is_named():
    good = records.osu("Osu", "bw", 1, 1, transport="posix")
    bad = records.osu("Osu", "bw", 1, 1, transport="tcp", problems=["tcp carried nothing"])
    found = curve([good, bad], "bw")
    assert [line.way for line in found.drawing.lines] == ["posix"]
    assert found.missing == (("tcp", "failed: tcp carried nothing"),)


def test_colours_of_configurations_and_of_transports_are_each_told_apart():
    drawn = [found.drawing for of_kind in figures.curves(CLUSTER).values() for found in of_kind]
    for found in drawn:
        assert len(found.ways) <= len(plots.PALETTE)
        assert {line.way for line in found.lines} <= set(found.ways)
    assert {found.ways for found in drawn} == {
        tuple(sorted({*records.INTRA, *records.INTER})), ("cma", "posix", "tcp"),
    }  # fmt: skip


def test_heat_maps_have_a_row_for_each_operation_and_mode_and_a_map_for_each_file_system():
    rows = figures.heat_maps(CLUSTER)
    heads = ["read", "SYNC read", "write", "SYNC write"]
    places = ["lustre-hdd", "lustre-ssd", "nvme", "sata-ssd"]
    assert [[found.title for found in row] for row in rows] == [
        [f"{head}, {place}" for place in places] for head in heads
    ]
    for row in rows:
        values = [value for found in row for value in found.drawing.cells.values()]
        assert {found.drawing.scale for found in row} == {(min(values), max(values))}


def test_many_missing_lines_are_counted_in_the_caption():
    said = figure.caption("Higher is better.", [(f"way {n}", "it failed") for n in range(9)])
    assert said.endswith("way 2 (it failed); way 3 (it failed); and 5 more.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", r"0: 1: expected a mapping.*see the head of studies/figures\.yaml"),
        ("{at: [x]}", "expected a list"),
        ("- {at: [x], figures: {y: {z: 1}}}", "0/figures/y/z: unknown key"),
        ("x", "expected a list"),
    ],
)
def test_a_list_of_a_study_that_is_none_is_one_line(tmp_path, text, said):
    path = tmp_path / "figures.yaml"
    path.write_text(text)
    with pytest.raises(ReportError, match=rf"figures\.yaml: .*{said}"):
        wanted.wanted([], [path])
    with pytest.raises(ReportError, match=r"none\.yaml: No such file"):
        wanted.wanted([], [tmp_path / "none.yaml"])
