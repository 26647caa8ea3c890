"""What a session says of the claims of the documents: lines, a page, and an exit code.

The page is ``index.html`` beside the figures: for each document its claims, and the figures that
the session has of them.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from assay import files
from assay.deadline import REACHED
from assay.exits import Exit
from assay.judge import Verdict
from assay.show.figure import Figure, figures_by_name
from assay.store.cases import Case, Session
from assay.store.session import ReportError
from studies import claims
from studies.claims import Claim, Finding, Point, Word

#: The sites whose nodes are emulated.
LAB = Path(__file__).resolve().parents[1] / "lab/sites"

#: A verdict, beside its colour also by a mark, for print and for the colour-blind.
MARKS = {Word.HOLDS: "✓", Word.FALLS: "✗", Word.UNKNOWN: "?"}

STYLE = """\
body {font: 16px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em}
table {border-collapse: collapse}
th, td {border: 1px solid #999; padding: .3em .6em; text-align: left}
.holds {color: #00559e} .falls {color: #a03000; font-weight: bold} .unknown {color: #555}
figure {margin: 2em 0} img {max-width: 100%}"""

HEAD = ("measurement", "figure", "claim", "verdict", "numbers, or why none", "ran", "needs")


def document(folder: Path) -> str:
    """The number of the document of a list of figures or claims."""
    return folder.name[-3:] if folder.name.startswith("doc") else "000"


def points(cases: Iterable[Case]) -> list[Point]:
    """The numbers of the proven cases."""
    found: list[Point] = []
    for number, case in enumerate(cases):
        if not case.proven:
            continue
        fields = {
            **case.values, "test": case.test, "partition": case.partition, "system": case.system,
            "environ": case.environ, "transport": case.transport, "hosts": len(case.hosts),
        }  # fmt: skip
        its = {m.name: (m.value, m.unit) for m in case.metrics if m.value is not None}
        peak, reached = case.proof.get("study_peak"), its.get("performance")
        if isinstance(peak, (int, float)) and peak > 0 and reached:
            its["share_of_peak"] = (100 * reached[0] / peak, "%")
        found += claims.points(number, fields, its, case.parsed.rows, case.parsed.units)
    return found


def findings(
    cases: Sequence[Case], lists: Iterable[Path], lack: str = ""
) -> dict[str, list[Finding]]:
    """What the cases of a session say of the claims of each document.

    :param lists: the lists of figures; the claims stand beside each.
    :param lack: why there is no case at all.
    :raises ReportError: a file of claims cannot be read, or is none.
    """
    measured = points(cases)
    emulated = any((LAB / case.system).is_dir() for case in cases)
    lacks: dict[str, set[str]] = {}
    for case in cases:
        if not case.proven and case.why:
            lacks.setdefault(case.test, set()).add(case.why)
    return {
        document(path.parent): [
            claims.judge(claim, measured, emulated, _lacking(claim, lacks, lack))
            for claim in claims.read(path.with_name("claims.yaml"), ReportError)
        ]
        for path in lists
    }


def _lacking(claim: Claim, lacks: Mapping[str, set[str]], lack: str) -> set[str]:
    found = {why for test in claims.tests(claim) for why in lacks.get(test, ())}
    return found or ({lack} if lack else set())


def cut_off(run: Session) -> list[Case]:
    """The cases that the deadline alone left without a result."""
    return [case for case in run.cases if REACHED in case.why and not case.problems]


def ended(run: Session, found: Mapping[str, Sequence[Finding]]) -> Exit:
    """The exit code: FAIL if a case failed or a claim does not hold, else PASS.

    What a deadline or other work on the machine left unmeasured is not wrong, and the closing lines
    name it. A run that was ended by hand is INTERRUPTED.
    """
    fallen = any(one.word is Word.FALLS for its in found.values() for one in its)
    late = cut_off(run)
    in_time = [case for case in run.cases if case not in late]
    if fallen or run.faults or any(case.verdict is Verdict.FAIL for case in in_time):
        return Exit.FAIL
    ended_early = any(case.aborted for case in in_time)
    return Exit.INTERRUPTED if run.salvaged or ended_early else Exit.PASS


def render(found: Mapping[str, Sequence[Finding]], drawn: Sequence[Figure]) -> str:
    """The page of the documents."""
    names = figures_by_name(drawn)
    parts = []
    for number, its in found.items():
        rows = "".join(_row(one) for one in its)
        head = "".join(f"<th>{word}</th>" for word in HEAD)
        wanted = {one.claim.figure for one in its}
        shown = "".join(
            f'<figure><img src="{html.escape(name)}.svg" alt="{html.escape(figure.title)}">'
            f"<figcaption>{html.escape(figure.caption)}</figcaption></figure>"
            for name, figure in names.items()
            if wanted & {name_of for name_of, _ in figure.shows}
        )
        none = "<p>This session has no figure of this document.</p>"
        parts.append(
            f'<h2 id="doc{number}">Document {number}</h2><table><tr>{head}</tr>{rows}</table>'
            f"{shown or none}"
        )
    top = " ".join(f'<a href="#doc{number}">{number}</a>' for number in found)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>The claims of the documents'
        f"</title><style>{STYLE}</style><h1>The claims of the documents</h1><p>{top}</p>"
        f"{''.join(parts)}</html>\n"
    )


def _row(one: Finding) -> str:
    claim = one.claim
    cells = (
        claim.measurement, claim.figure, claim.claim, f"{MARKS[one.word]} {one.word.value}",
        one.said, claim.ran, f"{claim.hardware}: {claim.command}",
    )  # fmt: skip
    inside = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr class="{one.word.name.lower()}">{inside}</tr>'


def write(folder: Path, found: Mapping[str, Sequence[Finding]], drawn: Sequence[Figure]) -> None:
    """Write the page, and print a line for each document."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write_file(folder / "index.html", render(found, drawn), ReportError)
    print(f"claims: {folder / 'index.html'}")
    for number, its in found.items():
        print(claims.closing(number, its))
