"""Stands for the program of EachGpu on each node: it prints a recorded output, or a made one.

EachGpu judges rates. Those of emulated GPUs depend on the machine that really copies, and on its
other work. The outputs of tests/data/each-gpu do not.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench import DATA, Bench

#: Stands for sh. Of the programs of EachGpu it starts none, but prints what was made for the node.
SH = """#!/bin/sh
case "$*" in *gpus.py*) ;; *) exec /bin/sh "$@" ;; esac
said={folder}/$(uname -n)
[ -e "$said" ] || said={folder}/others
exec cat "$said"
"""


def recorded(name: str) -> str:
    """An output of four emulated GPUs, or of one; the page of the folder says with which fault.

    Its host sees the end of each copy at once. The real host was busy with other work: in
    `slow-gpu` it saw no copy of one way before twice its time, and EachGpu says so.
    """
    lines = (DATA / "each-gpu" / f"{name}.txt").read_text().splitlines()
    return _text(
        {**line, "host_seconds": line["gpu_seconds"]} if "copy" in line else line
        for line in map(json.loads, lines)
    )


def first(gpus: int, text: str) -> str:
    """The output without all but the first GPUs, as a node that has no others says it."""
    kept = []
    for line in map(json.loads, text.splitlines()):
        ends = [line.get("gpu"), line.get("from"), line.get("to"), *line.get("next", ())]
        if all(end is None or end < gpus for end in ends):
            kept.append({**line, "gpus": gpus} if "program" in line else line)
    return _text(kept)


def slower(text: str, chosen: Callable[[set[int | None]], bool]) -> str:
    """The output with twice the time of each copy that is chosen by its two ends.

    :param chosen: gets the numbers of both GPUs; None is the host.
    """
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if "copy" in line and chosen({line["from"], line["to"]}):
            for clock in ("gpu_seconds", "host_seconds"):
                line[clock] = [2 * time for time in line[clock]]
    return _text(lines)


def _text(lines: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def instead(bench: Bench, stack: str, others: str, **nodes: str) -> Path:
    """The folder of the sh of a stack, to be the first on its PATH.

    :param others: what each node prints that is not one of `nodes`.
    """
    folder = bench.folder / "said" / stack
    folder.mkdir(parents=True)
    for name, text in {"others": others, **nodes}.items():
        (folder / name).write_text(text)
    return bench.program(stack, "sh", SH.format(folder=shlex.quote(str(folder))))
