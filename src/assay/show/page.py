"""The report as one self-contained HTML page."""

from __future__ import annotations

import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup, escape
from msgspec import structs

from assay import files
from assay.judge import RED, Verdict
from assay.quantities import quantity, spaced
from assay.show import plots, remedies, summary, suspects
from assay.show.figure import Absent, Section
from assay.show.strength import WORDS, least_loss, said_loss
from assay.show.view import View
from assay.store import promise
from assay.store.cases import Case, grouped
from assay.store.record import Metric
from assay.store.sanitize import line, mapping

HERE = Path(__file__).parent

#: How many suspects the first screen names, and how many causes if no node is accused.
MOST_SUSPECTS, MOST_CAUSES = 5, 3

#: Of a run with more cases than :data:`assay.show.view.WHOLE`: how many red cases are in full, and
#: how many rows tables and lists have.
MOST_ROWS = 40

#: How many characters of a message the first screen shows; "Causes" has all of it.
SHOWN = 180

#: A run that judged less than this share of its cases says so beside its verdict.
FEW = 0.5

#: Colours of a drawing on white paper -> the variable of page.css that a page shows instead.
COLOURS = {
    "#000000": "--ink", plots.GREY: "--soft", "#dddddd": "--line", "#ffffff": "--paper",
    plots.BLUE: "--blue", plots.VERMILLION: "--vermillion", plots.GREEN: "--green",
    plots.PURPLE: "--purple", plots.ORANGE: "--orange", plots.SKY: "--sky",
    plots.OUTSIDE["color"]: "--outside",
}  # fmt: skip

#: Sign of each verdict, so that a reader does not depend on colour alone.
SIGNS = {
    Verdict.PASS: "\N{CHECK MARK}",
    Verdict.FAIL: "\N{MULTIPLICATION X}",
    Verdict.INCONCLUSIVE: "?",
    Verdict.RECORDED: "\N{BULLET}",
    None: "\N{EN DASH}",
}


def render_page(
    view: View,
    sections: Sequence[Section],
    absent: Iterable[Absent],
    beside: Path,
    history: str | None = None,
) -> str:
    """The page as HTML.

    :param beside: path of the page; links to outputs are relative to its directory.
    :param history: address of the page of the history; None for no link.
    """
    environment = files.templates(HERE, html=True)
    environment.filters.update(
        svg=lambda figure: Markup(themed(figure.svg)),  # noqa: S704
        number=spaced,
        quantity=quantity,
        expected=expected,
        least_loss=least_loss,
        loss=said_loss,
        flatten=flatten,
        commands=commands,
        # Unlike `capitalize`, this leaves the words after the first one as they are.
        sentence=lambda text: text[:1].upper() + text[1:],
    )
    session, whole = view.session, view.whole
    cases = summary.sorted_cases(view.cases)
    most = sys.maxsize if whole else MOST_ROWS
    anchors = {(case.name, case.where): f"case-{n}" for n, case in enumerate(cases, 1)}
    environment.globals.update(
        sign=SIGNS.__getitem__,
        fared=suspects.FARED,
        address=_addresses(beside.resolve().parent),
        anchor=lambda case: anchors[case.name, case.where],
    )
    red = [case for case in cases if case.verdict in RED]
    again = grouped((case.system, case.test) for case in red)
    to_do = (
        ("To drain the failed nodes:", view.drains[0]),
        ("To measure again:", [remedies.again(*which) for which in again.items()]),
    )
    judged = summary.judged(cases)
    coverage = summary.coverage(cases)
    metrics = grouped((m.verdict is Verdict.RECORDED, (c, m)) for c, m in view.metrics)
    text = environment.get_template("page.html").render(
        structs.asdict(view),
        most_rows=most,
        history=history,
        site=", ".join(sorted({case.system for case in cases})) or "no site",
        headlines=summary.headlines([c for c in session.cases if c.proves]),
        judged_cases=judged,
        yardsticks=WORDS,
        few=judged < FEW * len(cases) and not red,
        otherwise=sum(coverage.values()) - judged,
        unjudged=[words for words, number in coverage.items() if not number],
        facts=[
            ("host", session.host or "not known"),
            *_facts(cases),
            ("date", f"{session.start:%-d %B %Y, %H:%M %Z}" if session.start else "not known"),
            ("session", " ".join(filter(None, (session.file.stem, session.uuid)))),
        ],
        unnamed=[cause for cause in view.causes if not (cause.nodes or cause.part)],
        to_do=to_do,
        most=MOST_SUSPECTS,
        most_causes=MOST_CAUSES,
        shown=SHOWN,
        attendance=suspects.attendance(cases, view.suspects, most),
        partitions=_partitions(cases),
        metrics=[_Metrics.of(metrics.get(key, []), whole) for key in (False, True)],
        not_run=summary.reasons_not_run(cases),
        others=summary.reasons_not_run(session.others),
        sections=sections,
        absent=_by_reason(absent),
        cases=cases if whole else red[:most],
        red=len(red),
        folded=[] if whole else _folded(cases, most),
        provenance=[*_settings(cases), *_provenance(view.cases)],
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704
        script=Markup((HERE / "page.js").read_text(encoding="utf-8")),  # noqa: S704
    )
    return files.clean(text)


class _Metrics(NamedTuple):
    """Metrics of a page: those that have a row each, and how many cases the others share one.

    :ivar folded: (worst verdict, case, metric with the median value, number, least, greatest) of
        each metric of a test at a place.
    """

    number: int
    rows: list[tuple[Case, Metric]]
    folded: list[tuple[Case, Metric, int, float, float]]

    @classmethod
    def of(cls, metrics: list[tuple[Case, Metric]], whole: bool) -> _Metrics:
        if whole:
            return cls(len(metrics), metrics, [])
        red = [pair for pair in metrics if pair[1].verdict in RED]
        alike = grouped(((c.test, c.where, m.name, m.unit), (c, m)) for c, m in metrics)
        folded = []
        for its in alike.values():
            known = sorted((m.value, n) for n, (_, m) in enumerate(its) if m.value is not None)
            if known:
                case, middle = its[known[len(known) // 2][1]]
                folded.append((case, middle, len(its), known[0][0], known[-1][0]))
        return cls(len(metrics), red[:MOST_ROWS], folded)


def _folded(cases: Sequence[Case], most: int) -> list[tuple[str, summary.Counts, list[Any]]]:
    """Of each test, the worst one first: its name, its counts, the cases that have a line.

    The first `most` red cases have more than that, and those that did not run have their reason.
    """
    known = {id(case) for case in [case for case in cases if case.verdict in RED][:most]}
    tests = grouped((case.test, case) for case in cases)
    return [
        (
            test,
            summary.Counts.of(its),
            [*grouped((c.verdict, c) for c in its if c.verdict and id(c) not in known).items()],
        )
        for test, its in tests.items()
    ]


def themed(svg: str) -> str:
    """A drawing whose colours are those of the page, light or dark."""
    pattern = "|".join(map(re.escape, COLOURS))
    by_name = {colour.lower(): name for colour, name in COLOURS.items()}
    return re.sub(
        rf"(?i)(?<=[ \"]) ?({pattern})\b", lambda found: f"var({by_name[found[1].lower()]})", svg
    )


def expected(metric: Metric) -> str:
    """Reference and bounds of a metric in words; empty if it has none of them."""
    low, high = (quantity(b, metric.unit) for b in (metric.lower, metric.upper))
    stated = metric.reference not in (None, metric.lower, metric.upper)
    parts = [quantity(metric.reference, metric.unit)] if stated else []
    if metric.lower is not None and metric.upper is not None:
        parts.append(f"{low} to {high}")
    elif metric.lower is not None:
        parts.append(f"at least {low}")
    elif metric.upper is not None:
        parts.append(f"at most {high}")
    return "; ".join(parts)


def commands(text: str) -> Markup:
    """The text with what is between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704


def flatten(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Nested JSON as lines of (dotted key, value), in the order of the record."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from flatten(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list) and any(isinstance(item, (Mapping, list)) for item in tree):
        for number, value in enumerate(tree, 1):
            yield from flatten(value, f"{path} {number}")
    elif isinstance(tree, list):
        yield path, ", ".join(map(str, tree)) or "none"
    else:
        yield path, "not known" if tree is None else str(tree)


def _facts(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """What the first screen says of where the cases ran, and of what: (what, value)."""
    nodes = sorted({node for case in cases for node in case.hosts})
    named = ", ".join(nodes[:MOST_SUSPECTS]) + (" ..." if len(nodes) > MOST_SUSPECTS else "")
    commits = {mapping(case.provenance.get("suite")).get("commit") for case in cases}
    ran = (case for case in cases if case.verdict is not None)
    stacks = {f"{one.environ} ({one.stack})" if one.stack else one.environ for one in ran}
    return [
        ("nodes", f"{len(nodes)}: {named}" if nodes else "not recorded"),
        ("suite", ", ".join(sorted(filter(None, map(line, commits)))) or "commit not recorded"),
        ("stack", "; ".join(sorted(stacks)) or "nothing ran"),
    ]


def _by_reason(absent: Iterable[Absent]) -> list[tuple[str, str, str, str]]:
    """(figures, place, tests, reason) of the figures that are missing as a whole."""
    whole = grouped(((one.at, one.test, one.why), one.figure) for one in absent if not one.part)
    return [("; ".join(names), *key) for key, names in whole.items()]


def _partitions(cases: Sequence[Case]) -> list[tuple[str, str, summary.Counts]]:
    """Counts by partition and stack, worst first; the site is named if there are several."""
    several = len({case.system for case in cases}) > 1
    groups = grouped(
        ((f"{case.system}:{case.partition}" if several else case.partition, case.environ), case)
        for case in cases
    )
    counted = [(*place, summary.Counts.of(group)) for place, group in groups.items()]
    return sorted(counted, key=lambda row: (-row[2].failed, -row[2].inconclusive, row[:2]))


def _settings(cases: Iterable[Case]) -> list[tuple[str, str, str]]:
    """(key, place, value) of what steered the launches, each once."""
    lines: set[tuple[str, str, str]] = set()
    for case in cases:
        its, place = case.settings, f"{case.partition}, {case.environ}"
        lines |= {(f"setting of the machine, {w}", "", value) for w, value in its.machine.items()}
        lines |= {("settings of the machine, sha256", place, its.sha256)} if its.sha256 else set()
        for group in case.machine:
            of = promise.few(group["nodes"])
            lines |= {("what the nodes say they are", ", ".join(of), it) for it in group["parts"]}
        lines |= {("changes no measurement", "", note) for note in case.notes}
        lines |= {("may change what is measured", "", doubt) for doubt in case.doubts}
    return sorted(lines)


def _provenance(cases: Iterable[Case]) -> list[tuple[str, str, str]]:
    """(key, place, value) from the node tests; the place is empty if all found the same value."""
    nodes = [case for case in cases if case.provenance]
    found = grouped(
        (key, (f"{case.partition}, {case.environ}", value))
        for case in nodes
        for key, value in flatten(case.provenance)
    )
    lines = []
    for key, said in found.items():
        by_place = dict(said)
        if len(by_place) == len(nodes) and len(set(by_place.values())) == 1:
            lines.append((key, "", said[0][1]))
        else:
            lines += [(key, place, value) for place, value in by_place.items()]
    return lines


def _addresses(start: Path) -> Callable[[Path], str]:
    """Makes the address of an output of a case, or of its folder, as seen from `start`."""
    above = cache(lambda folder: os.path.relpath(folder.resolve(), start))
    quote = urllib.parse.quote
    return lambda path: quote(f"{above(path.parents[1])}/{path.parent.name}/{path.name}")
