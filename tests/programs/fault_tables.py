"""The tables of faults in docs/faults, one row a fault; docs/faults.md shows them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/faults"


def file(name: str) -> Path:
    return FOLDER / f"{name}.csv"


def text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as its file has it."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()


def rows(name: str) -> list[list[str]]:
    """The rows of a table, without its head."""
    with file(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines))[1:]
