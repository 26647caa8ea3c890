"""Rules for every parser and every text: it raises only ParseError; a cut text is not complete."""

import json
import re
from functools import cache, partial
from inspect import signature
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_outputs import DATA, parsed_of

from assay import cli
from assay.parse import ParseError
from assay.parse.registry import PARSERS, parse_output, recognise

#: Real outputs of each family: tests/data/<family>/*.txt.
OUTPUTS = {
    family: {path.name: path.read_text(errors="replace") for path in files}
    for family in PARSERS
    if (files := sorted((DATA / family).glob("*.txt")))
}
#: Families whose programs end at the size that they were given.
NETWORK = {
    name for name, parser in PARSERS.items() if "last_size" in signature(parser.parse).parameters
}
# Lines that may follow the last line of a program: lines of its launcher, or requested extras.
AFTERWARDS = re.compile(
    r"\s*$|Timer resolution is poor|reported inaccurate results"
    r"| nprocs = | timer +\d+\(|NOTE: The CUDA Samples are not meant"
)
# Words that have broken parsers: words that are not numbers, or are numbers only for Python.
WORDS = ["nan", "-inf", "-1", "0", "1e999", "9" * 5000, "1_0", "٣", "²", "****", "", "\0", "\x85"]

# The run sets the number of examples: conftest.py.
same_each_time = settings(derandomize=True)


def check(family, text, **last_size):
    """Reads `text`, or accepts a ParseError. A result must keep the contract of the parsers."""
    PARSERS[family].recognise(text)
    keeps_the_contract(partial(PARSERS[family].parse, **last_size), text)


def keeps_the_contract(parse, text):
    try:
        parsed = parse(text)
    except ParseError:
        return
    json.dumps(parsed.as_dict())
    assert parsed.rows or not parsed.complete
    columns = {tuple(row) for row in parsed.rows}
    assert len(columns) <= 1, "rows with different columns"
    for row in parsed.rows:
        numbers = {name for name, value in row.items() if isinstance(value, (int, float))}
        assert numbers <= set(parsed.units)


@cache
def sorted_texts(family):
    return sorted(OUTPUTS[family].values())


@cache
def sorted_lines(family):
    return sorted({line for text in OUTPUTS[family].values() for line in text.split("\n")})


@st.composite
def mutated(draw, family):
    """A real output of `family` with some changed lines and words."""
    lines = draw(st.sampled_from(sorted_texts(family))).split("\n")
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        edit = draw(st.sampled_from(["delete", "repeat", "swap", "word", "character"]))
        if edit == "delete" and len(lines) > 1:
            del lines[at]
        elif edit == "repeat":
            lines.insert(other, lines[at])
        elif edit == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif edit == "word":
            words = re.split(r"(\s+|=)", lines[at])
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(WORDS))
            lines[at] = "".join(words)
        elif lines[at]:
            column = draw(st.integers(0, len(lines[at]) - 1))
            lines[at] = lines[at][:column] + draw(st.characters()) + lines[at][column + 1 :]
    return "\n".join(lines)


def any_text(family):
    return st.text()


def shuffled(family):
    """Lines of all outputs of `family`, in any order and number."""
    return st.lists(st.sampled_from(sorted_lines(family)), max_size=40).map("\n".join)


@st.composite
def other_rows(draw, family):
    """The beginning of a real output, often up to its first row, and lines with other numbers."""
    lines = draw(st.sampled_from(sorted_texts(family))).split("\n")
    first = next((n for n, line in enumerate(lines) if re.match(r"\s*\d", line)), 0)
    begin = lines[: draw(st.just(first) | st.integers(0, len(lines)))]
    rows = draw(st.lists(st.sampled_from(lines) | st.text(), max_size=8))
    word = st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=4)
    return "\n".join(
        [*begin, *(re.sub(r"\d[\d.]*", lambda _: str(draw(word)), row) for row in rows)]
    )


@pytest.mark.parametrize("family", PARSERS)
def test_each_real_output_is_read_as_written_beside_it(family, monkeypatch, capsys):
    """After a change: cd tests/data/FAMILY && assay parse *.txt >parsed.jsonl; see git diff."""
    monkeypatch.chdir(DATA / family)
    expected = list(parsed_of(family).values())
    assert {each["file"] for each in expected} == set(OUTPUTS[family])
    cli.main(["parse", *(each["file"] for each in expected)])
    said = capsys.readouterr().out
    assert [json.loads(line, parse_constant=pytest.fail) for line in said.splitlines()] == expected
    assert said == Path("parsed.jsonl").read_text()
    assert {each["family"] for each in expected} in ({family}, {family, None})


@pytest.mark.parametrize("family", PARSERS)
@pytest.mark.parametrize("damaged", [any_text, mutated, shuffled, other_rows])
@given(data=st.data())
@same_each_time
def test_any_text_and_damaged_outputs(damaged, family, data):
    last_size = {"last_size": data.draw(st.none() | st.integers())} if family in NETWORK else {}
    check(family, data.draw(damaged(family)), **last_size)


@given(text=st.text() | st.sampled_from([f for t in OUTPUTS.values() for f in t.values()]))
@same_each_time
def test_the_registry_raises_nothing_else(text):
    parse_or_none(text)


def parse_or_none(text, last_size=None):
    try:
        return parse_output(text, last_size=last_size)
    except ParseError:
        return None


def read_or_none(family, text, last_size):
    """What the parser of `family` reads of a text that nobody asks the other parsers about."""
    try:
        return PARSERS[family].parse(
            text, **({"last_size": last_size} if family in NETWORK else {})
        )
    except ParseError:
        return None


def test_no_text_is_claimed_by_two_parsers():
    for path in DATA.rglob("*.txt"):
        text = path.read_text(errors="replace")
        assert sum(parser.recognise(text) for parser in PARSERS.values()) <= 1, path


def test_a_log_of_two_programs_is_refused():
    both = OUTPUTS["hpl"]["plain.np2.txt"] + OUTPUTS["iozone"]["osync.txt"]

    with pytest.raises(ParseError, match="more than one program: hpl, iozone"):
        recognise(both)


# The last sizes that network programs were given. Other programs print the last size themselves.
LAST_SIZES = (None, 4 << 20, 1 << 20, 64 << 10, 4000)


@cache
def complete(family):
    """The complete outputs: name, text, and the first of the sizes above with which it is."""
    sizes = LAST_SIZES if family in NETWORK else (None,)
    found = {}
    for name, text in OUTPUTS[family].items():
        for size in () if "singletons" in name else sizes:  # singletons are several runs
            parsed = parse_or_none(text, size)
            if parsed and parsed.complete:
                found[name] = (text, size)
                break
    return found


def test_every_family_has_complete_outputs():
    assert all(map(complete, PARSERS))


@pytest.mark.parametrize("family", OUTPUTS)
def test_a_cut_output_is_never_complete(family, short):
    """Cuts every line at its begin, middle and end, and the last line at every position.

    A cut near the end leaves the output that looks most complete. A short run cuts the last lines,
    and every twentieth of the others. The programs of networks print no last line of their own: a
    row without its line end is cut, and a short run cuts every fourth of their other rows at its
    begin, and the last at every fourth position. Which ones differs from output to output.
    """
    wrong = []
    network, step = family in NETWORK, 4 if short else 1
    for place, (name, (text, last_size)) in enumerate(complete(family).items()):
        lines = text.rstrip().split("\n")
        # All lines after line `end` may be missing without harm.
        end = len(lines)
        while AFTERWARDS.match(lines[end - 1]):
            end -= 1
        for number, line in enumerate(lines[:end], 1):
            if number == end and (network or not short):
                last = len(line) - (not network)
                ends = {last, *range(place % step, last + 1, step)}
            elif not short or number > end - 5 or (number + place) % 20 == 0:
                ends = {0, len(line) // 2, max(0, len(line) - 1)}
            else:
                ends = {0} if network and (number + place) % step == 0 else set()
            before = "".join(f"{each}\n" for each in lines[: number - 1])
            for cut in ends:
                parsed = read_or_none(family, before + line[:cut], last_size)
                if parsed and parsed.complete:
                    wrong.append((name, number, cut))

    assert not wrong


@pytest.mark.parametrize("family", OUTPUTS)
def test_line_ends_of_a_terminal_change_nothing(family):
    for name, (text, last_size) in complete(family).items():
        again = parse_output(text.replace("\n", "\r\n"), last_size=last_size)
        assert again.as_dict() == parse_output(text, last_size=last_size).as_dict(), name
