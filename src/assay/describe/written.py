"""The files of a new site as texts, and their folder: it is written whole, or not at all."""

from __future__ import annotations

import contextlib
import pprint
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from assay import files
from assay.describe.described import Gap
from assay.judge import Hardware

#: Longest line of the files.
WIDTH = 96


@dataclass(frozen=True)
class Head:
    """What a site is called, and where it came from.

    :ivar hostnames: regular expressions for the beginning of the names of its login nodes.
    :ivar date: day of the answers, ``2026-11-23``.
    :ivar asked: the nodes that answered.
    """

    name: str
    hostnames: Sequence[str]
    modules_system: str
    date: str
    asked: Sequence[str]


@dataclass
class Draft:
    """A site that is not written yet.

    :ivar common: partition of Slurm -> what all partitions on its nodes have in common.
    :ivar partitions: partition of Slurm -> partitions in the format of ReFrame.
    :ivar links: links with the rate that a device states, for ``hardware.yaml`` of the site.
    """

    stack: dict[str, Any]
    together: bool
    common: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    links: dict[str, Hardware] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


def template(file: str, /, **values: Any) -> str:
    """The text of a template beside this file."""
    made = files.templates(Path(__file__).parent)
    fill = partial(textwrap.fill, width=WIDTH)
    made.filters.update(comment=_comment, fill=fill, python=_python, repr=repr)
    return made.get_template(file).render(values)


def _comment(text: str) -> str:
    """A text as a comment; the later lines of an item of a list are indented."""
    more = "#   " if text.startswith("-") else "# "
    return textwrap.fill(
        *(text, WIDTH),
        initial_indent="# ",
        subsequent_indent=more,
        break_long_words=False,
        break_on_hyphens=False,
    )


def reframe(head: Head, draft: Draft) -> str:
    """The file ``reframe.py``."""
    number = sum(map(len, draft.partitions.values()))
    names = _variables(draft.common)
    return template("reframe.jinja", head=head, draft=draft, number=number, names=names)


def _python(value: Mapping[str, Any], first: str = "") -> str:
    """A mapping as Python; `first` is what its first line has."""
    text = pprint.pformat(value, width=WIDTH - 8, sort_dicts=False, compact=True)
    return f"{{{first}\n {text[1:]}"


def _variables(common: Iterable[str]) -> dict[str, str]:
    """Partition of Slurm -> name of the variable with what its nodes have in common."""
    found: dict[str, str] = {}
    for slurm in common:
        name = "NODE" if not found else "NODE_" + re.sub(r"\W", "_", slurm.upper())
        while name in found.values():
            name += "_"
        found[slurm] = name
    return found


def references(head: Head, draft: Draft) -> str:
    """The file ``references.yaml``. Nothing was measured, so it has no reference yet."""
    about = (
        f"How {head.name} is judged. `assay site new` wrote this file on {head.date}, and nothing "
        "was measured: docs/adding-a-site.md explains the file."
    )
    ratios = False
    why = "the nodes share the cores, the memory and the disks of one machine"
    if not draft.together:
        why = f"nothing was measured yet; type assay calibrate --site {head.name}"
        words = next(iter(draft.partitions.values()))[0]["features"]
        # A reference that never applies is refused by the test SuiteLoads.
        if "tcp" in words and {*words} & {"posix", "sysv"}:
            about += " The ratios within one run hold for any machine."
            ratios = True
    return template("references.jinja", about=about, ratios=ratios, why=why)


def hardware(head: Head, draft: Draft) -> str:
    """The file ``hardware.yaml``; empty if the site needs none."""
    if not draft.links:
        return ""
    about = (
        f"Links of {head.name}, with the rate that their devices stated on {head.date}. A link "
        "that came up too slow states a lower rate: compare. "
        "bandwidth: payload in one direction [MB/s]."
    )
    links = yaml.safe_dump({"link": msgspec.to_builtins(draft.links)}, width=WIDTH)
    return f"{_comment(about)}\n{links}"


@contextlib.contextmanager
def published(folder: Path) -> Iterator[None]:
    """Makes the folder of a site, and removes it if an exception ends the block.

    :raises OSError: it cannot be made, or something is in its place.
    """
    folder.mkdir()
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
