"""One figure: a drawing, its text alternative and the numbers that it shows, and its files."""

from __future__ import annotations

import csv
import hashlib
import html
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path

from matplotlib.figure import Figure as Canvas

from assay import files
from assay.declared import Figure as Declared
from assay.judge import Verdict
from assay.quantities import better, binary, quantity, spaced
from assay.show import plots
from assay.show.plots import Drawing, Lines, Mark, Missing
from assay.show.summary import as_csv
from assay.store.cases import Case
from assay.store.promise import few
from assay.store.session import ReportError

#: A figure of the validation and its place; both together identify a figure.
Shown = tuple[str, str]

#: How many missing parts a caption names with their reasons.
MOST_NAMED = 4

#: Of a line with more points, a description has the first and the last one.
MOST_TOLD = 12

#: Names of two files beside those of the figures: the missing parts, and the index of the figures.
MISSING, INDEX = "missing", "figures"

ENDINGS = ("svg", "png", "csv")


@dataclass(frozen=True)
class Figure:
    """A drawing, with the text and numbers for a reader who cannot see it.

    :ivar numbers: its numbers for programs: a head with the units, and one row for each point,
        unrounded.
    :ivar pivot: the table that the page shows, its head first; empty if it shows `numbers`.
    :ivar words: its content in words; empty if the caption says it.
    :ivar shows: the figures of the validation that it represents; empty for an additional figure.
    :ivar told: id of a part of the drawing -> the text of each of its points, for a pointer.
    """

    name: str
    title: str
    caption: str
    drawing: Drawing
    numbers: tuple[tuple[str | float, ...], ...]
    pivot: tuple[tuple[str, ...], ...] = ()
    words: str = ""
    shows: frozenset[Shown] = frozenset()
    missing: tuple[Missing, ...] = ()
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """Its content in words."""
        return self.words or self.caption

    @property
    def table(self) -> tuple[tuple[str, ...], ...]:
        """The table that the page shows, its head first."""
        rows = self.pivot or self.numbers
        return tuple(tuple(c if isinstance(c, str) else spaced(c) for c in row) for row in rows)

    @cached_property
    def canvas(self) -> Canvas:
        return plots.draw(self.drawing)

    @cached_property
    def svg(self) -> str:
        """One ``<svg>`` element with ids that are unique in the page."""
        drawn = plots.svg(plots.draw(self.drawing))
        return _embed(_pointed(drawn, self.told), self.title, self.words or self.caption)

    @property
    def document(self) -> str:
        """The drawing as a separate SVG file, in the size in which its text is 10 pt."""
        svg = plots.svg(self.canvas)
        inside = svg.index(">", svg.index("<svg")) + 1
        title, words = html.escape(self.title), html.escape(self.description)
        return f"{svg[:inside]}<title>{title}</title><desc>{words}</desc>{svg[inside:]}"


@dataclass(frozen=True)
class Absent:
    """A figure or a part without a measurement, and the tests that should measure it, if any."""

    figure: str
    at: str
    part: str
    test: str
    why: str


@dataclass(frozen=True)
class Section:
    """Figures under one heading, in rows that share a scale; `word` is the text of a link to it."""

    anchor: str
    word: str
    heading: str
    rows: list[list[Figure]]
    narrow: bool = False


def all_figures(sections: Iterable[Section]) -> list[Figure]:
    """All figures, in the order of the page."""
    return [found for section in sections for row in section.rows for found in row]


def of_lines(
    name: str, title: str, drawing: Lines, shows: Iterable[Shown], what: str = "line"
) -> Figure:
    """A figure of lines; its table has a row for each x, and `what` distinguishes the lines."""
    lines, unit = drawing.lines, drawing.unit
    sizes = drawing.scale == plots.SIZES
    text = binary if sizes else spaced
    marks = [(line.label, mark) for line in lines for mark in line.marks]
    judged = " Grey bars are bounds." if marks else ""
    if failed := [*_outside(marks, unit)]:
        judged += f" Outside its bounds: {'; '.join(failed)}."
    ideal = "; the dotted line is the ideal" if drawing.ideal else ""
    by_ranks = any(line.ranks for line in lines)
    ways = ("way", "P") if by_ranks else ()
    heads = (line.label + ("" if unit == "1" else f" [{unit}]") for line in lines)
    over = drawing.over + " [B]" * sizes
    numbers: list[tuple[str | float, ...]] = [(what, *ways, over, f"{drawing.quantity} [{unit}]")]
    for line in lines:
        label = line.label.removeprefix(f"{what} = ").replace("\N{NO-BREAK SPACE}", "")
        which = (label, line.way, line.ranks) if ways else (label,)
        numbers += [(*which, x, y) for x, y in line.points]
    table = pivot((drawing.over, *heads), [dict(line.points) for line in lines], text)
    ends = []
    for line in lines:
        points = line.points if len(line.points) <= MOST_TOLD else (line.points[0], line.points[-1])
        told = (f"{quantity(y, unit)} at {text(x)}" for x, y in points)
        ends.append(f"{line.label}: {', '.join(told)}")
    said = f"{drawing.quantity} over {drawing.across or drawing.over}. {'; '.join(ends)}."
    return Figure(
        name,
        title,
        caption(f"{drawing.side or better(unit)}{ideal}.{judged}", drawing.missing),
        drawing,
        tuple(numbers),
        pivot=table,
        words=said[0].upper() + said[1:],
        shows=frozenset(shows),
        missing=drawing.missing,
        told={
            f"{plots.POINTS}{number}": tuple(
                f"{line.label}, {text(x)}: {quantity(y, unit)}"
                for x, y in line.points[:: plots.step(len(line.points), by_ranks)]
            )
            for number, line in enumerate(lines)
        },
    )


def pivot(
    head: tuple[str, ...], columns: Sequence[Mapping[float, float]], text: Callable[[float], str]
) -> tuple[tuple[str, ...], ...]:
    """A table with a row for each key of the columns, in ascending order; its head first."""
    keys = sorted({key for column in columns for key in column})
    return head, *(
        (text(key), *(spaced(column[key]) if key in column else "" for column in columns))
        for key in keys
    )


def _outside(marks: Iterable[tuple[str, Mark]], unit: str) -> Iterator[str]:
    """The judged points that failed, each with the label of its line and its bounds."""
    for label, mark in marks:
        if not mark.failed:
            continue
        ends = (("at least", mark.lower), ("at most", mark.upper))
        said = [f"{word} {quantity(end, unit)}" for word, end in ends if end is not None]
        bounds = " and ".join([*said, f"reference {quantity(mark.reference, unit)}"])
        yield f"{label} at {binary(mark.at)} is {quantity(mark.value, unit)}, {bounds}"


def caption(text: str, missing: Sequence[Missing]) -> str:
    """A caption that names the missing parts and the reasons."""
    named = "; ".join(few([f"{part} ({why})" for part, why in missing], MOST_NAMED))
    return f"{text} Not measured: {named}." if missing else text


def drawable(*values: float) -> bool:
    """Whether a logarithmic axis can show all values; 0 and absurd values stay in the outputs."""
    return all(1e-18 < value < 1e18 for value in values)


def positive(row: Mapping[str, object], columns: Iterable[str]) -> list[float] | None:
    """The values of a row; None unless all are numbers greater than zero, which can be drawn."""
    names = [*columns]
    found = [
        float(value)
        for value in map(row.get, names)
        if isinstance(value, (int, float)) and value is not True and drawable(value)
    ]
    return found if len(found) == len(names) else None


def count(case: Case, parameter: str) -> int | None:
    """A parameter that counts nodes or processes; None if it is not such a number."""
    text = case.values.get(parameter, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def others(case: Case, *left_out: str) -> tuple[tuple[str, str], ...]:
    """The parameters that must be equal for cases to share a drawing."""
    return tuple(sorted((k, v) for k, v in case.values.items() if k not in left_out))


def lack(case: Case) -> str:
    """The reason why a case without values has nothing to draw."""
    if case.verdict is None:
        return f"not run: {case.why}"
    if case.problems or (case.verdict is Verdict.FAIL and not case.parsed.rows):
        return f"failed: {case.why}"
    return "measured, but without values that can be drawn"


def declared(figures: Iterable[Declared], *kinds: str) -> tuple[Declared, ...]:
    return tuple(figure for figure in figures if figure.kind in kinds)


def reasons(cases: Sequence[Case]) -> str:
    """Why these cases have no measurement: the first reason, and the number of further reasons."""
    found = list(dict.fromkeys(map(lack, cases)))
    more = f" (and {len(found) - 1} more reasons)" if len(found) > 1 else ""
    return found[0] + more if found else "no case was selected"


def _pointed(svg: str, told: Mapping[str, tuple[str, ...]]) -> str:
    """The drawing with a text on each point, which a browser shows under the pointer."""
    for part, texts in told.items():
        start = svg.find(f'<g id="{part}">')
        if start < 0:
            continue
        element = "path" if part == plots.CELLS else "use"
        # A piece that was no element, and an element without its end, in turn.
        pieces = re.split(rf"(<{element}\b[^>]*?)\s*/>", svg[start:], maxsplit=len(texts))
        for at, text in zip(range(1, len(pieces), 2), texts):
            pieces[at] += f"><title>{html.escape(text)}</title></{element}>"
        svg = svg[:start] + "".join(pieces)
    return svg


def _embed(svg: str, title: str, description: str) -> str:
    """A stand-alone SVG prepared for a page with many: unique ids, a name, no fixed size."""
    body = svg[svg.index("<svg") :]
    prefix = "f" + hashlib.sha256((title + body).encode()).hexdigest()[:8]
    body = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\1{prefix}-", body)
    head, rest = body.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    name = f'<title id="{prefix}-t">{html.escape(title)}</title>'
    words = f'<desc id="{prefix}-d">{html.escape(description)}</desc>'
    labelled = f' role="img" aria-labelledby="{prefix}-t {prefix}-d"'
    return f"{head}{labelled}>{name}{words}{rest}".strip()


def write_figures(directory: Path, figures: Iterable[Figure], absent: Iterable[Absent]) -> int:
    """Write ``NAME.svg``, ``NAME.png``, ``NAME.csv`` of each, ``figures.csv``, ``missing.csv``.

    Each file is written whole or not at all; a file of the same name is replaced. Figures that the
    ``figures.csv`` of an earlier run lists are deleted, so that a folder shows one run. Other files
    stay.

    :returns: how many figures there are.
    :raises ReportError: the directory cannot be made or written.
    """
    drawn = figures_by_name(figures)
    header = ("figure", "at", "part", "test", "why")
    # Ordinary blanks, which any program recognises.
    lacking = [[t.replace("\N{NO-BREAK SPACE}", " ") for t in astuple(each)] for each in absent]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        index = directory / f"{INDEX}.csv"
        before = _indexed(index)
        for name, figure in drawn.items():
            files.write_file(directory / f"{name}.svg", figure.document)
            files.write_file(directory / f"{name}.png", plots.png(figure.canvas))
            files.write_file(directory / f"{name}.csv", as_csv(*figure.numbers))
        files.write_file(directory / f"{MISSING}.csv", as_csv(header, *lacking))
        # Delete them before the new index replaces the old one.
        for name in before - {*drawn, MISSING, INDEX}:
            for ending in ENDINGS:
                (directory / f"{name}.{ending}").unlink(missing_ok=True)
        rows = [[name, figure.title, figure.caption] for name, figure in drawn.items()]
        files.write_file(index, as_csv(("file", "title", "caption"), *rows))
    except OSError as error:
        raise ReportError(
            f"{directory}: figures cannot be written here ({error.strerror}); "
            "name another folder with --figures DIR"
        ) from None
    return len(drawn)


def figures_by_name(figures: Iterable[Figure]) -> dict[str, Figure]:
    """Figures by the name of their files; if two names are equal, the second gets a number."""
    found: dict[str, Figure] = {}
    for figure in figures:
        base = files.slug(figure.name)[:120].rstrip("-") or "figure"
        names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        found[next(name for name in names if name not in (*found, MISSING, INDEX))] = figure
    return found


def _indexed(index: Path) -> set[str]:
    """The names of the figures that an earlier run wrote, from its index."""
    try:
        rows = list(csv.reader(index.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error):
        return set()
    return {row[0] for row in rows[1:] if row and files.slug(row[0]) == row[0]}
