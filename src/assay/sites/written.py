"""The files of a new site as texts, and their folder: it is written whole, or not at all."""

from __future__ import annotations

import contextlib
import pprint
import re
import shutil
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from assay.judge import Hardware, Known
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

    :ivar known: the known hardware, :func:`assay.judge.hardware`, and the links of the site.
    :ivar common: partition of Slurm -> what all partitions on its nodes have in common.
    :ivar partitions: partition of Slurm -> partitions in the format of ReFrame.
    :ivar links: links with the rate that a device states, for ``hardware.yaml`` of the site.
    """

    stack: dict[str, Any]
    together: bool
    known: Known
    common: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    links: dict[str, Hardware] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


# --- reframe.py -----------------------------------------------------------------------------------


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


# --- references.yaml ------------------------------------------------------------------------------


RECORDED = """\
recorded:
  - for: {{partition: "*", test: NodeHealth}}
    why: the state before the run; its limits are the partition's `health`
  - for: {{partition: "*"}}
    until: calibrated
    why: {why}"""


def references(head: Head, draft: Draft) -> str:
    """The file ``references.yaml``. Proposals are comments, so that they judge nothing."""
    parts = [
        _comment(
            f"How {head.name} is judged. `assay site new` wrote this file on {head.date}, and "
            "nothing was measured: docs/adding-a-site.md explains the file."
        )
    ]
    if _has_ratios(draft):
        parts.append(
            "# Ratios within one run, which hold for any machine.\ninclude: [../ratios.yaml]"
        )
    parts.append("\n".join(["references:", *_proposed(draft)]))
    why = (
        f"nothing was measured yet; type assay calibrate --site {head.name}"
        if not draft.together
        else "the nodes share the cores, the memory and the disks of one machine"
    )
    parts.append(RECORDED.format(why=why))
    return "\n\n".join(parts) + "\n"


def _has_ratios(draft: Draft) -> bool:
    """Whether each reference of ``ratios.yaml`` applies to the first partition of the site.

    A reference that never applies is refused by the test SuiteLoads.
    """
    first = next(iter(draft.partitions.values()))[0]
    words = {*first["features"]}
    return not draft.together and "tcp" in words and bool(words & {"posix", "sysv"})


#: Share of the peak of a link that large messages reach, by transport. The rest is for headers, and
#: for TCP also for the kernel.
REACHED = {"rc_mlx5": 0.95, "tcp": 0.9, "nvlink": 0.9}


def _proposals(draft: Draft) -> Iterator[tuple[str, float, str]]:
    """The `for` block, the share of the peak and the link of large messages on a known link."""
    stack = draft.stack["features"]
    test = next((test for word, test in (("osu", "Osu"), ("osu-py", "OsuPy")) if word in stack), "")
    for each in (each for every in draft.partitions.values() for each in every):
        features, link = each["features"], each["extras"].get("hardware", {}).get("link")
        where = f"partition: {each['name']}"
        if link and "nvlink" in features:
            case = f"{where}, test: OsuGpu, benchmark: bw, buffers: DD, configuration: all"
            yield case, REACHED["nvlink"], link
        elif link and test and "gpu" not in features:
            where += f", test: {test}, benchmark: bw"
            for over in (over for over in REACHED if over in features):
                yield f"{where}, transport: {over}", REACHED[over], link


def _proposed(draft: Draft) -> list[str]:
    """Comments below the key ``references``. Without its ``#``, each line of a proposal is YAML."""
    lines = []
    for case, share, name in _proposals(draft):
        link = draft.known["link"][name]
        peak = link.bandwidth or 0
        # No more than the peak itself.
        upper = f"lower: -0.1, upper: {1 / share - 1:.2f}"
        source = (
            f"proposal, not measured: {share:g} of the peak of {name}, {peak:g} MB/s, is "
            f"{share * peak:g} MB/s ({link.source})"
        )
        lines += [
            f"#  - for: {{{case}}}",
            "#    metrics:",
            f"#      bandwidth_1MiB: {{of_peak: {share:g}, unit: MB/s, {upper}}}",
            "#    source: >-",
            *(f"#      {line}" for line in textwrap.wrap(source, WIDTH - 8)),
        ]
    if not lines:
        return ["# No proposal: no partition names a link whose peak is in hardware.yaml."]
    about = (
        "Proposals, from peaks of hardware.yaml. They judge nothing before you take away the `#` "
        "of their lines. `of_peak` is a share of the peak of the partition's `hardware`."
    )
    return [_comment(about), *lines]


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


# --- folder ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def published(folder: Path, name: str) -> Iterator[Path]:
    """A temporary folder for a site, in which the site can be loaded. At the end it is the site.

    It lies beside the folder of all sites, so a rename publishes it. The files that all sites share
    are linked beside it. It is removed if an exception ends the block.

    :raises OSError: it cannot be made, something is in its place, or it cannot be renamed.
    """
    parent = Path(tempfile.mkdtemp(prefix=".site-new-", dir=folder.resolve().parent))
    try:
        for shared in folder.resolve().glob("*.yaml"):
            (parent / shared.name).symlink_to(shared)
        made = parent / name
        made.mkdir()
        yield made
        shutil.rmtree(made / "__pycache__", ignore_errors=True)
        # A rename replaces an empty folder, and no other.
        made.rename(folder / name)
    finally:
        shutil.rmtree(parent, ignore_errors=True)
