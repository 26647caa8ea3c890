"""Two ways to run one program, in turn within one job: the job script and the programs.

Each launch has its own directory, ``<way>.<round>``. The directory holds its ``stdout``, its
``stderr`` and all other files that the launch left. The ways take turns to begin a round. Changes
in the course of the job, and effects of one launch on the next, therefore favour neither way.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.opinions.parse import netpipe
from assay.parse import Parsed, osu

MIB = 1 << 20

#: Name of the shell function that :func:`script` defines.
ROUNDS = "assay_rounds"

#: Pairs of launches, by profile. Each launch takes a second or two.
NUMBER = {"smoke": 8, "full": 20}


def launches(ways: Sequence[str], rounds: int) -> Iterator[tuple[str, int, Path]]:
    """Way, number of the round, and directory of each launch, in the order of the launches."""
    for number in range(rounds):
        order = ways if number % 2 else ways[::-1]
        yield from ((way, number, Path(f"{way}.{number}")) for way in order)


def settings(variables: Mapping[str, str]) -> list[str]:
    """Lines that set variables; an empty value unsets one."""
    return [
        f"export {name}={shlex.quote(value)}" if value else f"unset {name}"
        for name, value in variables.items()
    ]


def script(rounds: int, ways: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines that define :data:`ROUNDS`.

    :param ways: name of each way -> the lines of its launch; the last one is the command.
    """
    lines = [line for way, body in ways.items() for line in (f"{way}() {{", *body, "}")]
    lines += [
        "one() {",
        '  (mkdir -p "$1.$2" && cd "$1.$2" && rm -f -- * && "$1" >stdout 2>stderr </dev/null)',
        "}",
        f"{ROUNDS}() {{",
    ]
    order = launches([*ways], rounds)
    return [*lines, *(f"  one {way} {number} || return" for way, number, _ in order), "}"]


@dataclass(frozen=True)
class Program:
    """A short launch of a benchmark that measures several message sizes.

    :ivar feature: that a stack needs to have the program.
    :ivar command: of the program, from the extras of the stack.
    :ivar read: reads standard output and standard error.
    """

    feature: str
    command: Callable[[Mapping[str, Any]], str]
    read: Callable[[str, str], Parsed]


def of_osu(name: str, first: int, last: int, iterations: int, more: str = "") -> Program:
    """A program of OSU over message sizes from `first` to `last` [B], with more options."""
    command = f"osu_{name} -m {first}:{last} -i {iterations} {more}".rstrip()
    return Program("osu", lambda _: command, lambda out, _: osu.parse_osu(out, last_size=last))


def of_netpipe(first: int, last: int, repeats: int) -> Program:
    """NetPIPE over message sizes from `first` to `last` [B], of which it needs at least two."""
    options = f"-p 0 -l {first} -u {last} -n {repeats}"
    return Program(
        "netpipe",
        lambda extras: f"{extras.get('netpipe_command', 'NPmpi')} {options}",
        lambda _, err: netpipe.parse_netpipe(err, last_size=last),
    )
