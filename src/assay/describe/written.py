"""The files of a new site as texts, and their folder: it is written whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from assay import files
from assay.judge import Hardware

#: The file that ReFrame loads, of each site.
REFRAME = """\
from assay import sites

site_configuration = sites.from_yaml(__file__)
"""

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
    gaps: list[str] = field(default_factory=list)


def template(file: str, /, **values: Any) -> str:
    made = files.templates(Path(__file__).parent)
    made.filters.update(comment=_comment, yaml=_yaml)
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


def words(head: Head, draft: Draft) -> str:
    places = {
        each["name"]: {"of": slurm, **_unnamed(each)}
        for slurm, every in draft.partitions.items()
        for each in every
    }
    stacks = {draft.stack["name"]: _unnamed(draft.stack)}
    sections = [{"nodes": draft.common}, {"places": places}, {"stacks": stacks}]
    return template("site.jinja", head=head, draft=draft, places=places, sections=sections)


def _unnamed(words: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in words.items() if key != "name"}


def _yaml(content: Mapping[str, Any]) -> str:
    # Read again from JSON, no list is the same twice: a reader of YAML knows no anchors.
    plain = json.loads(json.dumps(content))
    # PyYAML ends a line after the word that is beyond the width.
    return yaml.safe_dump(plain, default_flow_style=None, sort_keys=False, width=WIDTH - 24)


def references(head: Head, draft: Draft) -> str:
    """The file ``references.yaml``. Nothing was measured, so it has no reference yet."""
    about = (
        f"How {head.name} is judged. `assay site new` wrote this file on {head.date}, and nothing "
        "was measured: docs/adding-a-site.md explains the file."
    )
    why = "the nodes share the cores, the memory and the disks of one machine"
    if not draft.together:
        why = f"nothing was measured yet; type assay calibrate --site {head.name}"
    return template("references.jinja", about=about, why=why)


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
