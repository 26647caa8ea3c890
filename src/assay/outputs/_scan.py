"""Functions that the parsers of compute and storage programs share.

They split a text into lines, and read numbers as C and Fortran print them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from assay.outputs._base import ParseError

# The number of digits is limited: int() raises above 4300 digits, and no benchmark prints 40.
_INTEGER = re.compile(r"[-+]?\d{1,40}", re.ASCII)
_REAL = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?", re.ASCII)
# printf and gfortran write these; "****" is a Fortran field that is too narrow for its value.
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)|\*{2,}", re.IGNORECASE)


def split(text: str) -> list[str]:
    """The lines of `text`, without trailing blanks; line ``n`` of the output is item ``n - 1``.

    Only ``\\n`` ends a line: ``str.splitlines`` also breaks at form feeds and would count wrongly.
    """
    return [line.rstrip() for line in text.split("\n")]


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
