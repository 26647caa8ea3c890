"""Functions that the parsers of compute and storage programs share.

They split a text into lines, and read numbers as C and Fortran print them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from assay.outputs._base import ParseError

# The number of digits is limited: int() raises above 4300 digits, and no benchmark prints 40.
_INTEGER = re.compile(r"[-+]?\d{1,40}", re.ASCII)
_REAL = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?", re.ASCII)
# printf and gfortran write these; "****" is a Fortran field that is too narrow for its value.
#: What launchers print about processes that died.
CRASH = re.compile(
    r"exited on signal|Segmentation fault|MPI_ABORT was invoked|a non-zero exit code"
    r"|non-zero status|^srun: error:|^slurmstepd: error:"
)
# UCX has a log of its own, which may stand within the line of a program.
_WARNING = re.compile(r"(?!.* UCX )\s*[^\s\d#].*\bwarning\b|warning\b", re.IGNORECASE)
# Open MPI frames its messages by two such lines; the longest has this many lines.
_FRAME, _LONGEST = re.compile(r"-{60,100}"), 60
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)|\*{2,}", re.IGNORECASE)


def split(text: str) -> list[str]:
    """The lines of `text`, without trailing blanks; line ``n`` of the output is item ``n - 1``.

    A mark of the byte order, which editors and consoles of other systems write, is left out.
    Only ``\\n`` ends a line: ``str.splitlines`` also breaks at form feeds and would count wrongly.
    """
    return [line.rstrip() for line in text.removeprefix("\ufeff").split("\n")]


def without_warnings(
    lines: Sequence[str], start: int = 0, framed: bool = False
) -> Iterator[tuple[int, str]]:
    """The numbered lines from item `start` on, without the warnings of libraries.

    Libraries warn on the stream on which the program prints its numbers. A warning does not
    change them. A message that also reports a crash is kept, and so is a line that may be a row.

    :param framed: leave out only the framed messages of Open MPI: the program itself warns, too.
    """
    end = start
    for at, line in enumerate(lines[start:], start):
        if at < end:
            continue
        if line.startswith("-----") and _FRAME.fullmatch(line):
            ends = range(at + 1, min(at + _LONGEST, len(lines)))
            end = next((i + 1 for i in ends if _FRAME.fullmatch(lines[i])), at)
        elif not framed and "warning" in line.lower():
            end = at + 1
        message = lines[at:end]
        if not any(map(_WARNING.match, message)) or any(map(CRASH.search, message)):
            end = at
            yield at + 1, line


def integer(token: str, number: int, line: str) -> int:
    """`token` as an int.

    :raises ParseError: `token` is not a whole number; the error names line `number`.
    """
    if not _INTEGER.fullmatch(token):
        raise ParseError(f"{token[:40]!r} is not a whole number", number, line)
    return int(token)


def real(token: str, number: int, line: str) -> float:
    """`token` as a float; NaN if the program printed NaN, infinity or an overflowed Fortran field.

    :raises ParseError: `token` is not a number at all; the error names line `number`.
    """
    if _REAL.fullmatch(token):
        value = float(token)
        return value if math.isfinite(value) else math.nan
    if _NOT_FINITE.fullmatch(token):
        return math.nan
    raise ParseError(f"{token[:40]!r} is not a number", number, line)


def only(lines: Sequence[str], pattern: re.Pattern[str], what: str) -> tuple[int, re.Match[str]]:
    """Line number and match of the only line that `pattern` matches.

    :raises ParseError: no line matches, or more than one line does. Several matches mean appended
        outputs, or ranks that did not join one world and each ran the benchmark alone.
    """
    hits = [(n, m) for n, line in enumerate(lines, 1) if (m := pattern.match(line))]
    if not hits:
        raise ParseError(f"{what} not found")
    if len(hits) > 1:
        number = hits[1][0]
        why = f"{len(hits)} runs in one text (appended outputs, or ranks that ran alone)"
        raise ParseError(why, number, lines[number - 1])
    return hits[0]
