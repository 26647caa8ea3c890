"""The files of a new site as texts, and their folder: it is written whole, or not at all."""

from __future__ import annotations

import contextlib
import pprint
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from assay.judge import Hardware
from assay.sites.describe import Gap

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


_REFRAME = '''\
"""{name}: {number} partitions on nodes of Slurm, found on {date}.

{about}
"""

# Stacks: {stack_name}

from assay import sites

{comments}

{nodes}

PARTITIONS = [
{partitions}
]

STACK = {stack}

site_configuration = sites.configuration(
    __file__,
    systems=[
        {{
            "name": {name!r},
            "hostnames": {hostnames!r},  # regular expressions
            "modules_system": {modules_system!r},
            "partitions": PARTITIONS,
        }}
    ],
    environments=[STACK],
    # The partitions share nodes and network, so cases run one at a time.
    one_at_a_time=True,
)
'''


def _comment(*lines: str) -> str:
    """Comments; the later lines of an item of a list are indented."""
    wrapped = []
    for line in lines:
        more = "#   " if line.startswith("-") else "# "
        wrapped += textwrap.wrap(
            *(line, WIDTH),
            initial_indent="# ",
            subsequent_indent=more,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(wrapped)


#: What follows from :attr:`Draft.together`, for the reader of the file.
TOGETHER = (
    "The nodes are parts of one machine: they have one kernel. So ranks yield while they wait, "
    "tests between nodes have one rank on each node, and the smoke profile between nodes leaves "
    "out HPCC and HPL."
)


def reframe(head: Head, draft: Draft) -> str:
    """The file ``reframe.py``."""
    names = _variables(draft.common)
    about = (
        f"`assay site new` wrote this file from what Slurm and {', '.join(head.asked)} said. "
        "Nothing was measured. Compare the file with the machine before you rely on it."
    )
    unknown = ["What could not be found out, and what to do:", *(f"- {gap}" for gap in draft.gaps)]
    said = "#: What all partitions on the nodes of Slurm's partition {} have in common."
    partitions = [
        textwrap.indent(_python(each, f"**{names[slurm]},") + ",", "    ")
        for slurm, every in draft.partitions.items()
        for each in every
    ]
    return _REFRAME.format(
        name=head.name,
        number=len(partitions),
        date=head.date,
        about=textwrap.fill(about, WIDTH),
        comments=_comment(*unknown, *([TOGETHER] if draft.together else [])),
        nodes="\n\n".join(
            f"{said.format(slurm)}\n{names[slurm]} = {_python(common)}"
            for slurm, common in draft.common.items()
        ),
        partitions="\n".join(partitions),
        stack_name=draft.stack["name"],
        stack=_python(draft.stack),
        hostnames=list(head.hostnames),
        modules_system=head.modules_system,
    )


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


REFERENCES = """\
# yaml-language-server: $schema=../schemas/references.json
{about}
{ratios}
references:
# None yet.

recorded:
  - for: {{partition: "*", test: NodeHealth}}
    why: the state before the run; its limits are the partition's `health`
  - for: {{partition: "*"}}
    until: calibrated
    why: {why}
"""


def references(head: Head, draft: Draft) -> str:
    """The file ``references.yaml``. Nothing was measured, so it has no reference yet."""
    about = (
        f"How {head.name} is judged. `assay site new` wrote this file on {head.date}, and nothing "
        "was measured: docs/adding-a-site.md explains the file."
    )
    ratios = ""
    why = "the nodes share the cores, the memory and the disks of one machine"
    if not draft.together:
        why = f"nothing was measured yet; type assay calibrate --site {head.name}"
        words = next(iter(draft.partitions.values()))[0]["features"]
        # A reference that never applies is refused by the test SuiteLoads.
        if "tcp" in words and {*words} & {"posix", "sysv"}:
            about += " The ratios within one run hold for any machine."
            ratios = "\ninclude: [../ratios.yaml]\n"
    return REFERENCES.format(about=_comment(about), ratios=ratios, why=why)


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
