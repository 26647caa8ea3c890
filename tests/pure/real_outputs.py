"""What the tests of the parsers share: real outputs, damaged forms of them, and their problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"


def texts(family: str, prefix: str = "") -> dict[str, str]:
    """The real outputs in tests/data/`family`: name without `prefix` and `.txt` -> text."""
    return {
        path.name.removeprefix(prefix).removesuffix(".txt"): path.read_text()
        for path in sorted((DATA / family).glob("*.txt"))
    }


def edited(text: str, old: str, new: str) -> str:
    """`text` in which `new` replaces the first `old`."""
    assert old in text
    return text.replace(old, new, 1)


def has(problems: Iterable[str], pattern: str) -> bool:
    return any(re.search(pattern, problem) for problem in problems)


def parsed_of(family: str) -> dict[str, dict[str, Any]]:
    """What `assay parse` must print of these outputs: name without `.txt` -> JSON object."""
    lines = (DATA / family / "parsed.jsonl").read_text().splitlines()
    return {said["file"].removesuffix(".txt"): said for said in map(json.loads, lines)}
