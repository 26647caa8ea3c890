"""The figures that a study asks for, and the ones that a session does not have.

    python -m ci.wanted [--session DIR] --figures DIR --junit FILE LIST...

writes the report of a session, as `assay report` does, with what the figures of each LIST lack, and
judges the claims beside each LIST (:mod:`ci.paper`), which decide the exit code.
A list names its figures. Tests of a study declare figures by the same names, and
:mod:`studies.validation` has those of cases of the suite (:mod:`assay.declared`). Each drawn figure
states its own entry (:attr:`assay.show.figure.Figure.shows`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from ci import paper
from msgspec.structs import replace

from assay import files
from assay.declared import PARTITION
from assay.exits import Exit
from assay.show import report, validation
from assay.show.figure import Absent, Figure, Shown, reasons
from assay.store import session
from assay.store.cases import Case
from assay.store.session import ReportError
from studies.validation import figures as of_validation

#: Why no claim of a document was measured, where no case of it is one of the site.
NO_CASE = "no case of the document is one of this site; assay check says which words it lacks"


class _Keys(msgspec.Struct, forbid_unknown_fields=True):
    """The head of studies/figures.yaml explains the keys."""

    of: str = ""
    ranks: tuple[str, ...] = ()
    lack: str = ""


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    """A group has at, a list of places, and figures; see the head of studies/figures.yaml."""

    at: list[str]
    figures: dict[str, _Keys]


@dataclass(frozen=True)
class Wanted:
    """A figure at a place, with the keys of its entry; tests name it as `declared` does."""

    figure: str
    at: str
    keys: _Keys

    @property
    def declared(self) -> str:
        return self.keys.of or self.figure


def named(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The cases, with the figures of the validation for tests of the suite."""
    return tuple(
        replace(case, figures=tuple(found))
        if (found := of_validation(case.test, case.values))
        else case
        for case in cases
    )


def wanted(cases: Iterable[Case], studies: Iterable[Path]) -> list[Wanted]:
    """All figures of the studies; those of storage once for each file system of the session.

    :param studies: the lists of figures.
    :raises ReportError: a list cannot be read, or is none.
    """
    on = {case.partition for case in cases if any(PARTITION in f.at for f in case.figures)}
    return [
        Wanted(figure, at.replace(PARTITION, partition), keys)
        for path in studies
        for group in files.read_shape(path, list[_Group], ReportError)
        for at in group.at
        for figure, keys in group.figures.items()
        for partition in ((sorted(on) or ["any file system"]) if PARTITION in at else [""])
    ]


def absent(
    cases: Sequence[Case], figures: Iterable[Figure], studies: Iterable[Path]
) -> list[Absent]:
    """The missing figures of a session: whole figures first, then parts of figures.

    :param studies: the lists of the studies that the session is for.
    :raises ReportError: a list cannot be read.
    """
    drawn = list(figures)
    shown = {key for figure in drawn for key in figure.shows}
    where = validation.of_partitions(cases)
    places = [_places(case, where.get((case.system, case.partition), "")) for case in cases]
    whole, parts = [], []
    for item in wanted(cases, studies):
        found = [case for case, its in zip(cases, places) if (item.declared, item.at) in its]
        if (item.figure, item.at) in shown:
            there = {validation.ranks(case.values) for case in found}
            lost = [count for count in item.keys.ranks if any(there) and count not in there]
            parts += [Absent(item.figure, item.at, f"P = {n}", "", reasons([])) for n in lost]
            continue
        unproven = [case for case in found if not case.proven]
        why = reasons(unproven or found)
        if item.keys.lack and len(unproven) < len(found):
            why = f"{item.keys.lack}; {why}" if unproven else item.keys.lack
        tests = ", ".join(sorted({case.test for case in found}))
        whole.append(Absent(item.figure, item.at, "", tests, why))
    return [*whole, *parts, *validation.incomplete(drawn)]


def _places(case: Case, place: str) -> set[Shown]:
    """What a case should measure, by name and place; a case with an unknown place may be at any."""
    either = [place] if place else [validation.IN_NODE, validation.BETWEEN]
    return {(f.name, f.where(case.partition, at)) for f in case.figures for at in either}


def main() -> int:
    """Write the report of a session and the page of its claims, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST")
    for name in ("--figures", "--junit"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--session", type=Path, help="without it, no case is of this site")
    args = parser.parse_args()
    try:
        if args.session is None:
            paper.write(args.figures, paper.findings((), args.lists, NO_CASE), ())
            return Exit.PASS
        return _report(args)
    except ReportError as error:
        print(f"wanted: {error}", file=sys.stderr)
        return Exit.UNKNOWN


def _report(args: argparse.Namespace) -> int:
    run = session.load_session(args.session)
    run = replace(run, cases=named(run.cases))
    every: list[Figure] = []

    def lacking(drawn: Sequence[Figure]) -> list[Absent]:
        every.extend(drawn)
        return absent(run.cases, drawn, args.lists)

    page = args.junit.with_name("report.html")
    report.write_report(run, page, args.figures, lacking, args.junit)
    found = paper.findings(run.cases, args.lists)
    paper.write(args.figures, found, every)
    if late := paper.cut_off(run):
        print(
            f"claims: {len(late)} cases that the deadline ended or left out count as not measured"
        )
    return paper.ended(run, found)


if __name__ == "__main__":
    sys.exit(main())
