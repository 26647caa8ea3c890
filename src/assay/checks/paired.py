"""The job script of a comparison: two stacks in turn, in rounds of one job.

Each launch has a directory of its own, ``<stack>.<round>``, with its ``stdout`` and ``stderr`` and
whatever it left. Who begins alternates, so that what changes in the course of the job, or what one
launch leaves to the next, favours neither.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from assay.catalogue import IN_IMAGE

#: What is compared, in the words of the directories.
NATIVE, CONTAINER = "native", "container"

#: The function that :func:`script` defines.
ROUNDS = "assay_rounds"


def launches(rounds: int) -> Iterator[tuple[str, int, Path]]:
    """Stack, number of the round, and directory of each launch, in their order."""
    for number in range(rounds):
        order = (NATIVE, CONTAINER) if number % 2 else (CONTAINER, NATIVE)
        yield from ((stack, number, Path(f"{stack}.{number}")) for stack in order)


def script(
    rounds: int, commands: Mapping[str, str], native: Sequence[str], variables: Mapping[str, str]
) -> list[str]:
    """Lines that define :data:`ROUNDS`, in a job whose stack is the container's.

    :param commands: what either stack launches.
    :param native: commands that load the other stack.
    :param variables: values that it needs, for the names that the container's has; empty for none.
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
