"""One figure: a drawing, its text alternative, and the numbers that it shows."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure as Canvas

from assay.report import plots, units
from assay.report.series import Missing

#: A figure of the validation and its place; both together identify a figure.
Shown = tuple[str, str]

#: How many missing parts a caption names with their reasons.
MOST_NAMED = 4


@dataclass(frozen=True)
class Tidy:
    """Numbers for programs: one row for each point, unrounded, with the units in `header`."""

    header: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A drawing, with the text and numbers for a reader who cannot see it.

    :ivar name: the words from which the names of its files are made.
    :ivar caption: one line below it.
    :ivar description: its content in words.
    :ivar header: columns of the table of its numbers.
    :ivar table: its numbers, as text.
    :ivar shows: the figures of the validation that it represents; empty for an additional figure.
    :ivar missing: its parts that this session did not measure.
    :ivar told: id of a part of the drawing -> the text of each of its points, for a pointer.
    """

    name: str
    title: str
    caption: str
    description: str
    canvas: Canvas
    header: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]
    numbers: Tidy
    shows: frozenset[Shown] = frozenset()
    missing: tuple[Missing, ...] = ()
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def svg(self) -> str:
        """One ``<svg>`` element with ids that are unique in the page."""
        return _embed(_pointed(plots.svg(self.canvas), self.told), self.title, self.description)

    @property
    def document(self) -> str:
        """The drawing as a separate SVG file, in the size in which its text is 10 pt."""
        svg = plots.svg(self.canvas)
        inside = svg.index(">", svg.index("<svg")) + 1
        title, words = html.escape(self.title), html.escape(self.description)
        return f"{svg[:inside]}<title>{title}</title><desc>{words}</desc>{svg[inside:]}"


@dataclass(frozen=True)
class Section:
    """Figures under one heading, in rows that share a scale; `narrow` figures go side by side.

    :ivar word: text of a link to it.
    """

    anchor: str
    word: str
    heading: str
    rows: list[list[Figure]]
    narrow: bool = False


def of(sections: Iterable[Section]) -> list[Figure]:
    """All figures, in the order of the page."""
    return [found for section in sections for row in section.rows for found in row]


def slug(*words: str) -> str:
    """Words as the name of a file: lower case, digits and hyphens; ``OneTwo`` is two words."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", " ".join(words).replace("/", ""))
    return re.sub(r"[^a-z0-9]+", "-", apart.lower()).strip("-")


def caption(text: str, missing: Sequence[Missing]) -> str:
    """A caption that names the missing parts and the reasons."""
    if not missing:
        return text
    named = "; ".join(f"{part} ({why})" for part, why in missing[:MOST_NAMED])
    more = f"; and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    return f"{text} Not measured: {named}{more}."


def by_x(
    lines: Iterable[Iterable[tuple[float, float]]], text: Callable[[float], str]
) -> tuple[tuple[str, ...], ...]:
    """A table with a row for each x that any line has, and a column for each line."""
    columns = [dict(line) for line in lines]
    return tuple(
        (text(x), *(units.number(column[x]) if x in column else "" for column in columns))
        for x in sorted({x for column in columns for x in column})
    )


def _pointed(svg: str, told: Mapping[str, tuple[str, ...]]) -> str:
    """The drawing with a text on each point, which a browser shows under the pointer."""
    for part, texts in told.items():
        start = svg.find(f'<g id="{part}">')
        if start < 0:
            continue
        remaining = iter(texts)

        def titled(match: re.Match[str], remaining: Iterator[str] = remaining) -> str:
            return f"{match[1]}><title>{html.escape(next(remaining))}</title></{match[2]}>"

        element = "path" if part == plots.PAIRS else "use"
        pattern = rf"(<({element})\b[^>]*?)\s*/>"
        svg = svg[:start] + re.sub(pattern, titled, svg[start:], count=len(texts))
    return svg


def _embed(svg: str, title: str, description: str) -> str:
    """A stand-alone SVG prepared for a page with many: unique ids, a name, no fixed size."""
    body = svg[svg.index("<svg") :]
    prefix = "f" + hashlib.sha256((title + body).encode()).hexdigest()[:8]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    body = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}-', body)
    head, rest = body.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    name = f'<title id="{prefix}-t">{html.escape(title)}</title>'
    words = f'<desc id="{prefix}-d">{html.escape(description)}</desc>'
    labelled = f' role="img" aria-labelledby="{prefix}-t {prefix}-d"'
    return f"{head}{labelled}>{name}{words}{rest}".strip()
