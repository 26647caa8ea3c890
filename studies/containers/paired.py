"""The job script of a comparison: two stacks alternate, in rounds within one job.

Each launch has its own directory, ``<stack>.<round>``. The directory holds its ``stdout``, its
``stderr`` and all other files that the launch left. The stacks take turns to begin a round. Changes
in the course of the job, and effects of one launch on the next, therefore favour neither stack.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from assay.catalogue import IN_IMAGE

#: Names of the compared stacks in the names of the directories.
NATIVE, CONTAINER = "native", "container"

#: Name of the shell function that :func:`script` defines.
ROUNDS = "assay_rounds"


def launches(rounds: int) -> Iterator[tuple[str, int, Path]]:
    """Stack, number of the round, and directory of each launch, in the order of the launches."""
    for number in range(rounds):
        order = (NATIVE, CONTAINER) if number % 2 else (CONTAINER, NATIVE)
        yield from ((stack, number, Path(f"{stack}.{number}")) for stack in order)


def script(
    rounds: int, commands: Mapping[str, str], native: Sequence[str], variables: Mapping[str, str]
) -> list[str]:
    """Lines that define :data:`ROUNDS`, in a job that uses the stack of the container.

    :param commands: the launch command of each stack.
    :param native: commands that load the native stack.
    :param variables: values in the native stack of the variables that the container's stack has; an
        empty value unsets the variable.
    """
    settings = [
        f"export {name}={shlex.quote(value)}" if value else f"unset {name}"
        for name, value in variables.items()
    ]
    lines = [
        f"wrappers=$(dirname $(command -v {IN_IMAGE}))",
        f"{NATIVE}() {{",
        '  PATH=${PATH//"$wrappers:"/}',
        *(f"  {line}" for line in (*native, *settings)),
        f"  {commands[NATIVE]}",
        "}",
        f"{CONTAINER}() {{",
        f"  {commands[CONTAINER]}",
        "}",
        "one() {",
        '  (mkdir -p "$1.$2" && cd "$1.$2" && rm -f -- * && "$1" >stdout 2>stderr </dev/null)',
        "}",
        f"{ROUNDS}() {{",
    ]
    lines += [f"  one {stack} {number} || return" for stack, number, _ in launches(rounds)]
    return [*lines, "}"]
