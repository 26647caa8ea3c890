"""What the tests of the parsers share: real outputs, damaged forms of them, and their problems."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from assay.parse import Parsed, ParseError

DATA = Path(__file__).parents[1] / "data"


def texts(family: str, prefix: str = "", data: Path = DATA) -> dict[str, str]:
    """The real outputs below `data`/`family`: name without `prefix` and `.txt` -> text."""
    return {
        str(path.relative_to(data / family)).removeprefix(prefix).removesuffix(".txt"): (
            path.read_text(errors="replace")
        )
        for path in sorted((data / family).rglob("*.txt"))
    }


def torn(texts: Mapping[str, str]) -> st.SearchStrategy[str]:
    """Lines of these outputs, in any order and number, each with something in its middle."""
    lines = sorted({line for text in texts.values() for line in text.splitlines()})
    piece = st.tuples(st.sampled_from(lines), st.integers(0, 200), st.text(max_size=8)).map(
        lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] :]
    )
    return st.lists(piece, max_size=30).map("\n".join)


def edited(text: str, old: str, new: str) -> str:
    """`text` in which `new` replaces the first `old`."""
    assert old in text
    return text.replace(old, new, 1)


def has(problems: Iterable[str], pattern: str) -> bool:
    return any(re.search(pattern, problem) for problem in problems)


Parse = Callable[[str], Parsed]
Test = Callable[..., None]


def problems(parse: Parse, text: str, damages: Sequence[tuple[str, str, str]]) -> Test:
    """A test for each damage (old, new, words): a problem of the damaged output has the words."""

    @pytest.mark.parametrize(("old", "new", "words"), damages)
    def test(old: str, new: str, words: str) -> None:
        parsed = parse(edited(text, old, new))
        assert not parsed.sound
        assert any(words in problem for problem in parsed.problems), parsed.problems

    return test


def incomplete(parse: Parse, text: str, damages: Sequence[tuple[str, str]]) -> Test:
    """A test for each damage (old, new): the damaged output is not complete."""

    @pytest.mark.parametrize(("old", "new"), damages)
    def test(old: str, new: str) -> None:
        assert not parse(edited(text, old, new)).complete

    return test


def refused(parse: Parse, text: str, damages: Sequence[tuple[str, str, str]]) -> Test:
    """A test for each damage (old, new, pattern): the parser refuses the damaged output."""

    @pytest.mark.parametrize(("old", "new", "pattern"), damages)
    def test(old: str, new: str, pattern: str) -> None:
        with pytest.raises(ParseError, match=pattern):
            parse(edited(text, old, new))

    return test


def parsed_of(family: str) -> dict[str, dict[str, Any]]:
    """What `assay parse` must print of these outputs: name without `.txt` -> JSON object."""
    lines = (DATA / family / "parsed.jsonl").read_text().splitlines()
    return {said["file"].removesuffix(".txt"): said for said in map(json.loads, lines)}
