"""The page of a history: changes first, trends by tolerance, marks, and no trust in names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import histories
import pytest

from assay.archive.history import page
from assay.archive.history.page import Mark
from assay.cli import main


def points(svg: str) -> list[tuple[float, ...]]:
    (line,) = re.findall(r'points="([^"]*)"', svg)
    return [tuple(map(float, point.split(","))) for point in line.split()]


def band(svg: str) -> list[tuple[float, float]]:
    """Top and height of each band."""
    found = re.findall(r'<rect class="band" x="\S+" y="(\S+)" width="\S+" height="(\S+)"/>', svg)
    return [(float(top), float(high)) for top, high in found]


def test_noise_within_the_tolerance_looks_like_noise() -> None:
    svg = page.trend([100, 101, 99, 100], 0.05, [])
    heights = [y for _, y in points(svg)]
    # A range of 2 % of a picture that shows at least two tolerances on either side, 20 %.
    assert max(heights) - min(heights) == pytest.approx(0.1 * (page.HIGH - 6), abs=0.2)
    ((top, high),) = band(svg)
    assert (top, high) == (pytest.approx(10.5, abs=0.1), pytest.approx(15, abs=0.1))


def test_a_value_far_outside_is_still_in_the_picture() -> None:
    svg = page.trend([100, 10, 100], 0.05, [])
    assert all(page.ROOM <= y <= page.HIGH - page.ROOM for _, y in points(svg))


def test_each_baseline_has_its_band_and_each_change_its_mark() -> None:
    values = [100.0] * 10 + [90.0] * 10 + [120.0] * 10
    marks = [Mark(10, "slower", "change"), Mark(20, "firmware <9>", "planned")]
    assert page.baselines(values, marks) == [(0, 20, 100.0), (20, 30, 120.0)]
    svg = page.trend(values, 0.05, marks)
    assert len(band(svg)) == 2
    assert re.findall(r'<line class="(\w+)"', svg) == ["change", "planned"]
    assert "<title>firmware &lt;9&gt;</title>" in svg
    assert 'aria-label="90 to 120, last 120, with a change"' in svg


def test_a_pointer_hits_a_line_from_some_pixels_away() -> None:
    svg = page.trend([100.0] * 10 + [90.0] * 10, 0.05, [Mark(10, "slower", "change")])
    at = float(re.findall(r'<line class="change" x1="(\S+)"', svg)[0])
    ((title, left, wide),) = re.findall(
        r'<g><title>(\w+)</title><line [^>]*/><rect class="reach" x="(\S+)" y="0" width="(\d+)"',
        svg,
    )
    assert title == "slower"
    assert (float(left) + int(wide) / 2, int(wide)) == (pytest.approx(at, abs=0.1), 10)
    # A picture that paper or a phone makes smaller stays whole.
    assert f'viewBox="0 0 {page.WIDE} {page.HIGH}"' in svg


def test_an_old_mark_is_not_drawn_but_its_baseline_counts() -> None:
    values = [100.0] * 10 + [120.0] * 10
    svg = page.trend(values, 0.05, [Mark(10, "firmware", "planned")], first=15)
    assert "<line" not in svg
    assert len(points(svg)) == 5
    # The band is around 120, not around a median of both levels.
    assert band(svg) == [(pytest.approx(10.5, abs=0.1), pytest.approx(15, abs=0.1))]


@pytest.mark.parametrize("values", [[], [5.0]])
def test_less_than_two_values_have_no_picture(values: list[float]) -> None:
    assert page.trend(values, 0.05, []) == ""


def test_values_of_zero_have_a_picture() -> None:
    assert len(points(page.trend([0.0, 0.0], 0.05, []))) == 2


def test_changes_come_first_with_their_marks_and_names_are_not_trusted(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    days = [100.0] * 30 + [90.0] * 30
    folder = histories.write(
        tmp_path / "history",
        [
            histories.session(
                day,
                histories.case(value + day % 3 / 10, name=name),
                histories.case(5.0 + day % 3 / 100, name="Calm"),
            )
            for day, value in enumerate(days, 1)
        ],
    )
    target = tmp_path / "history.html"
    assert main(["history", "show", str(folder), "--page", str(target)]) == 0
    text = target.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "http" not in text
    changes, runs = text.index('id="changes"'), text.index('id="runs"')
    assert changes < runs
    first = text[changes:runs]
    assert "1 change of level, 1 of them beyond" in first
    assert "-10.0%, 2.0 x tolerance" in first
    assert "Calm" not in first
    assert first.count('<line class="change"') == 1
    assert "Calm" in text[runs:]
    assert text[runs:].count("<polyline") == 2
    # A narrow window cuts off the last columns, so the newest run is the first one.
    days_of = re.findall(r'<th scope="col" class="n">(\d{4}-\d\d-\d\d) ', text[runs:])
    assert len(days_of) == 10
    assert days_of == sorted(days_of, reverse=True)
    values = re.findall(r'<td class="n">([\d.]+)</td>', text[runs:])
    assert values[:3] == ["90", "90.2", "90.1"]
    # A keyboard reaches each table that is wider than the window.
    assert text.count("<table") == text.count('<div class="scroll" role="region" tabindex="0"') == 2


def test_the_report_links_the_page_of_the_history(tmp_path: Path) -> None:
    data = Path(__file__).parents[3] / "data/faults/memory"
    report = shutil.copytree(data, tmp_path / "run") / "reports/run-report-0.json"
    target = tmp_path / "report.html"
    command = ["report", "--session", str(report), "--output", str(target)]
    assert main(command) == 1
    assert "History and changes" not in target.read_text()
    (tmp_path / "history.html").write_text("a page")
    assert main(command) == 1
    assert '<a href="history.html">History and changes</a>' in target.read_text()
