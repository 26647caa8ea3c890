"""The colours of the page: text and marks stand out, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest
import report_records
from report_results import DATA

from assay.archive import history
from assay.show import figures, page, plots
from assay.store import session

FAULTS = DATA.parents[1] / "faults"
STYLE = (Path(page.__file__).parent / "page.css").read_text()

#: Least contrasts of text and of marks: WCAG 2.2, 1.4.3 and 1.4.11.
TEXT, MARK = 4.5, 3.0

VERDICTS = ("pass", "fail", "inconclusive", "recorded", "not-run")
TEXTS = [
    *((ink, paper) for ink in ("ink", "soft", "link") for paper in ("paper", "ground", "head")),
    *((verdict, f"{verdict}-bg") for verdict in VERDICTS),
    # Badges of a table, and links in the cells of a node.
    *((verdict, "paper") for verdict in VERDICTS),
    # The values under the pointer.
    ("ground", "ink"),
]
MARKS = [
    (mark, "paper")
    for mark in ("blue", "vermillion", "green", "purple", "orange", "sky", "outside", "focus")
] + [("focus", "ground")]
# In the trend of a metric (the page of a history): what is drawn on the band of its tolerance. The
# border of the band is green.
MARKS += [(mark, "pass-bg") for mark in ("blue", "vermillion", "outside", "soft")]


def themes() -> dict[str, dict[str, str]]:
    """light and dark -> variable -> colour."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(blocks) == 2
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    return {"light": light, "dark": {**light, **dark}}


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def too_weak(theme: dict[str, str]) -> list[str]:
    wanted = [(pair, TEXT) for pair in TEXTS] + [(pair, MARK) for pair in MARKS]
    return [
        f"{one} on {other}: {found:.2f}"
        for (one, other), least in wanted
        if (found := contrast(theme[one], theme[other])) < least
    ]


def test_black_on_white_has_the_contrast_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    # The orange of Okabe and Ito, which the page had before.
    assert contrast("#e69f00", "#ffffff") == pytest.approx(2.25, abs=0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_and_marks_stand_out(name):
    theme = themes()[name]
    assert too_weak(theme) == []
    assert too_weak({**theme, "orange": theme["paper"], "soft": theme["ground"]})


@pytest.mark.parametrize("name", ["light", "dark"])
def test_a_square_of_a_map_is_told_from_an_empty_one(name):
    """The ends of the colour map are near to the paper: yellow in light, dark blue in dark."""
    theme = themes()[name]
    ends = {mpl.colors.to_hex(mpl.colormaps["cividis"](end)) for end in (0.0, 1.0)}
    assert min(contrast(end, theme["paper"]) for end in ends) < MARK
    run = session.load_session(FAULTS / "rate" / "reports" / "run-report-0.json")
    drawn = page.themed(plots.svg(next(figures.pair_grids(run.cases)).canvas))
    squares = drawn[drawn.index(f'id="{plots.CELLS}"') :]
    (edge,) = set(re.findall(r"stroke: ?var\(--([a-z]+)\)", squares[: squares.index("</g>")]))
    assert contrast(theme[edge], theme["paper"]) >= MARK


def test_every_colour_has_a_name_in_both_themes():
    light, dark = (
        set(re.findall(r"--([\w-]+): #", b)) for b in re.findall(r":root \{(.*?)\}", STYLE, re.S)
    )
    assert light == dark
    rest = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*[;}])", rest.replace("#sign", "")) == []
    assert set(re.findall(r"var\(--([\w-]+)\)", rest)) <= light


def test_a_drawing_takes_the_colours_of_the_theme():
    assert {*plots.PALETTE, plots.GREY, plots.OUTSIDE["color"]} <= set(page.COLOURS)
    assert {name[2:] for name in page.COLOURS.values()} <= set(themes()["light"])
    case = report_records.osu("Osu", "latency", 0.3, 9e3, transport="posix")
    (section,) = figures.sections([case])
    drawn = page.themed(section.rows[0][0].svg)
    assert "var(--blue)" in drawn
    assert re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", drawn) == []


def test_the_page_of_a_history_uses_these_colours():
    text = (Path(history.__file__).parent / "page.html").read_text()
    used = dict(
        re.findall(r"\.trend (\S+) \{ (?:fill: none; )?(?:fill|stroke): var\(--([\w-]+)\)", text)
    )
    assert set(used.values()) == {"blue", "vermillion", "pass-bg", "outside", "soft"}
    assert used[".band"] == "pass-bg"
    assert re.search(r"\.trend \.band \{[^}]*stroke: var\(--green\)", text)
    assert not re.findall(r"(?:color|fill|stroke|background): *#", text)
