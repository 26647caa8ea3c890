"""Rules for every parser and every text: it raises only ParseError; a cut text is not complete."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.outputs import ParseError
from assay.outputs.registry import PARSERS, parse, recognise

DATA = Path(__file__).parents[1] / "data"
#: Real outputs of each family: tests/data/<family>/*.txt.
OUTPUTS = {
    family: {path.name: path.read_text(errors="replace") for path in files}
    for family in PARSERS
    if (files := sorted((DATA / family).glob("*.txt")))
}
EVERY_FILE = [(family, name) for family, texts in OUTPUTS.items() for name in texts]
# Lines that may follow the last line of a program: lines of its launcher, or requested extras.
AFTERWARDS = re.compile(
    r"\s*$|Timer resolution is poor|reported inaccurate results"
    r"| nprocs = | timer +\d+\("
)
# Words that have broken parsers: words that are not numbers, or are numbers only for Python.
WORDS = ["nan", "-inf", "-1", "0", "1e999", "9" * 5000, "1_0", "٣", "²", "****", "", "\0", "\x85"]

# The run sets the number of examples: tests/conftest.py.
same_each_time = settings(derandomize=True)


def check(family, text):
    """Reads `text`, or accepts a ParseError. A result must keep the contract of the parsers."""
    PARSERS[family].recognise(text)
    try:
        parsed = PARSERS[family].parse(text)
    except ParseError:
        return
    json.dumps(parsed.as_dict())
    columns = {tuple(row) for row in parsed.rows}
    assert len(columns) <= 1, "rows with different columns"
    for row in parsed.rows:
        numbers = {name for name, value in row.items() if isinstance(value, (int, float))}
        assert numbers <= set(parsed.units)


@st.composite
def mutated(draw, family):
    """A real output of `family` with some changed lines and words."""
    text = draw(st.sampled_from(sorted(OUTPUTS[family].values())))
    lines = text.split("\n")
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


def shuffled(family):
    """Lines of all outputs of `family`, in any order and number."""
    lines = sorted({line for text in OUTPUTS[family].values() for line in text.split("\n")})
    return st.lists(st.sampled_from(lines), max_size=40).map("\n".join)


@pytest.mark.parametrize("family", PARSERS)
def test_every_parser_has_real_outputs(family):
    assert any(parse_or_none(text) for text in OUTPUTS[family].values())


@pytest.mark.parametrize("family", PARSERS)
@given(text=st.text())
@same_each_time
def test_any_text(family, text):
    check(family, text)


@pytest.mark.parametrize("family", OUTPUTS)
@given(data=st.data())
@same_each_time
def test_mutated_outputs(family, data):
    check(family, data.draw(mutated(family)))


@pytest.mark.parametrize("family", OUTPUTS)
@given(data=st.data())
@same_each_time
def test_shuffled_outputs(family, data):
    check(family, data.draw(shuffled(family)))


@given(text=st.text() | st.sampled_from([f for t in OUTPUTS.values() for f in t.values()]))
@same_each_time
def test_the_registry_raises_nothing_else(text):
    parse_or_none(text)


def parse_or_none(text, last_size=None):
    try:
        return parse(text, last_size=last_size)
    except ParseError:
        return None


@pytest.mark.parametrize(("family", "name"), EVERY_FILE)
def test_an_output_that_can_be_read_is_of_its_family(family, name):
    parsed = parse_or_none(OUTPUTS[family][name])

    assert parsed is None or parsed.family == family


@pytest.mark.parametrize(
    "path", sorted(DATA.rglob("*.txt")), ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_no_text_is_claimed_by_two_parsers(path):
    text = path.read_text(errors="replace")

    assert sum(parser.recognise(text) for parser in PARSERS.values()) <= 1


def test_a_log_of_two_programs_is_refused():
    both = OUTPUTS["hpl"]["plain.np2.txt"] + OUTPUTS["iozone"]["osync.txt"]

    with pytest.raises(ParseError, match="more than one program: hpl, iozone"):
        recognise(both)


# The last sizes that network programs were given. Other programs print the last size themselves.
LAST_SIZES = (None, 4 << 20, 1 << 20, 64 << 10)


def last_sizes(family, name):
    """The sizes above with which the output is complete, if the output is one run."""
    text = OUTPUTS[family][name]
    return [
        size
        for size in LAST_SIZES
        if (parsed := parse_or_none(text, size)) and parsed.complete and "singletons" not in name
    ]


COMPLETE = [(f, n, sizes[0]) for f, n in EVERY_FILE if (sizes := last_sizes(f, n))]


def test_every_family_has_complete_outputs():
    assert {family for family, *_ in COMPLETE} == set(PARSERS)


@pytest.mark.parametrize(("family", "name", "last_size"), COMPLETE)
def test_a_cut_output_is_never_complete(family, name, last_size, short):
    lines = OUTPUTS[family][name].rstrip().split("\n")
    # All lines after line `end` may be missing without harm.
    end = len(lines)
    while AFTERWARDS.match(lines[end - 1]):
        end -= 1
    wrong = []
    # A cut near the end leaves the output that looks most complete. A short run tries those cuts,
    # and every tenth of the others.
    tried = [n for n in range(1, end + 1) if not short or n > end - 5 or n % 10 == 0]
    for number in tried:
        line = lines[number - 1]
        head = "".join(f"{before}\n" for before in lines[: number - 1])
        for part in {line[:length] for length in (0, len(line) // 2, len(line) - 1)} - {line}:
            parsed = parse_or_none(head + part, last_size)
            if parsed and parsed.complete:
                wrong.append((number, part))

    assert not wrong


@pytest.mark.parametrize(("family", "name", "last_size"), COMPLETE)
def test_line_ends_of_a_terminal_change_nothing(family, name, last_size):
    text = OUTPUTS[family][name]

    again = parse(text.replace("\n", "\r\n"), last_size=last_size)

    assert again.as_dict() == parse(text, last_size=last_size).as_dict()
