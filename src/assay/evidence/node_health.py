"""What a node reports of its own faults, before and after a benchmark.

A script on each node prints counters of the kernel, the links on the PCI bus, and the lines of the
kernel's log that count. ``node_health.yaml`` has them, with their limits and the source of each
limit. A counter that moved during the benchmark beyond its limit is a fault of the run. Its line
names the device and the node.

The job script reads its own node. The first rank of each other node reads that node
(``link-witness.sh``), and so does each process of a meeting (``meeting.py``). The GPUs of a node
have their own module, :mod:`assay.evidence.gpu_health`.

The form of the counters of memory, heat, ports and PCIe errors is that of the kernel's documents. A
machine that has them was not there when this was written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from assay import files
from assay.accused import Against, How
from assay.quantities import number

#: The script that prints the state of a node, in the stage directory. The nodes know this name:
#: link-witness.sh and meeting.py of assay.onnode.
SCRIPT = "node-health.sh"

#: Files of a job with the state before and after the benchmark; ``*`` stands for the node.
FILES = ("health.*.before", "health.*.after")

#: The longest that a node may take to print its state [s].
PATIENCE = 20

#: Number of devices that one line names.
NAMED = 3

#: What is read of each device on the PCI bus. ``..`` is the bridge above it.
_PCI = "/sys/bus/pci/devices"
_ENDS = ("speed", "width")

#: The device itself, and the bridge above it.
_SIDES = ("", "../")
_PCI_FILES = (
    "class",
    *(f"current_link_{end}" for end in _ENDS),
    *(f"max_link_{end}" for end in _ENDS),
    *(f"../max_link_{end}" for end in _ENDS),
)


class Limit(NamedTuple):
    """How much a counter may show; ``node_health.yaml`` explains the fields."""

    what: str
    source: str
    path: str = ""
    rise: float | None = None
    per: float | None = None
    most: float | None = None
    holds: int | None = None

    def allowed(self, seconds: float) -> float | None:
        """How much the counter may grow in this time; None if it is only recorded."""
        if self.rise is None or self.per is None:
            return self.rise
        return self.rise * max(1.0, seconds / self.per)


class Link(NamedTuple):
    """Which devices must have the full speed or width of their link."""

    what: str
    begins: str
    speed: bool
    width: bool
    source: str


class Line(NamedTuple):
    """Lines of the kernel's log that count."""

    what: str
    pattern: str
    source: str


@dataclass(frozen=True)
class Rules:
    """The content of ``node_health.yaml``, by the names that it gives."""

    counters: Mapping[str, Limit]
    interrupts: Mapping[str, Limit]
    links: Mapping[str, Link]
    kernel: Mapping[str, Line]


@dataclass(frozen=True)
class Reading:
    """What a node reported at one time.

    :ivar up: time since the boot [s].
    :ivar counters: (name of the counter, device) -> value; the device of an interrupt is empty.
    :ivar links: address on the PCI bus -> file of it -> its content.
    :ivar lines: lines of the kernel's log that count.
    :ivar unread: why the kernel's log could not be read; empty if it could.
    """

    up: float
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    unread: str = ""


@cache
def rules() -> Rules:
    """The counters, links and lines that count, from ``node_health.yaml``."""
    document = files.read_yaml(Path(__file__).with_name("node_health.yaml"), ValueError)
    return Rules(
        {name: Limit(**limit) for name, limit in document["counters"].items()},
        {name: Limit(**limit) for name, limit in document["interrupts"].items()},
        {
            name: Link(begins=link.pop("class"), **link)
            for name, link in ((name, {**link}) for name, link in document["links"].items())
        },
        {name: Line(**line) for name, line in document["kernel"].items()},
    )


#: Line of a job script that waits for the reading that :func:`in_job` began.
WAIT = 'wait "$assay_health"'


def in_job(when: str) -> str:
    """A line of a job script that keeps the state of its node, ``before`` or ``after``.

    The reading runs beside other evidence, so that it costs no time. :data:`WAIT` is its end.
    """
    file = f"health.$(uname -n).{when}"
    # Files of an earlier launch in this directory would stand for nodes of this one.
    clean = 'rm -f "$assay_stage"/health.*; ' if when == "before" else ""
    return (
        f'{clean}timeout {PATIENCE} sh "$assay_stage"/{SCRIPT} >"$assay_stage/{file}" 2>/dev/null '
        "& assay_health=$!"
    )


def script(root: str = "") -> str:
    """The script that prints the state of a node. It needs only sh, cat, grep and dmesg.

    :param root: the folder in which ``/sys`` and ``/proc`` are, for a test.
    """
    found = rules()
    counters = " ".join(root + limit.path for limit in found.counters.values())
    pci = " ".join(f"{root}{_PCI}/*/{name}" for name in _PCI_FILES)
    rows = " ".join(f"-e '^ *{name}:'" for name in found.interrupts)
    patterns = " ".join(f"-e {shlex.quote(line.pattern)}" for line in found.kernel.values())
    return "\n".join(
        (
            "exec 2>/dev/null",
            f"echo '[uptime]'; cat {root}/proc/uptime",
            f"echo '[interrupts]'; grep {rows} {root}/proc/interrupts",
            # A counter that is not there leaves its pattern, and grep says so on standard error.
            # Of the errors of a PCIe device only the sums count.
            f"echo '[counters]'; grep -HE '^(TOTAL_[A-Z_]+ )?[0-9]+$' {counters}",
            f"echo '[links]'; grep -H '' {pci}",
            # Only an administrator may read the log on many machines; dmesg then says so.
            "command -v dmesg >/dev/null || missing='dmesg: not installed'",
            "echo '[kernel]'",
            f"(echo \"${{missing-}}\"; dmesg 2>&1) | grep -E {patterns} -e '^dmesg: '",
            "echo '[end]'",
            "true\n",
        )
    )


def parse(text: str, root: str = "") -> Reading:
    """What :func:`script` printed.

    :raises ValueError: the text is torn: it has no time, or it ends too early.
    """
    parts: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].isalpha():
            parts[line[1:-1]] = lines = []
        elif parts:
            lines.append(line)
    try:
        up = float(parts["uptime"][0].split()[0])
    except (LookupError, ValueError):
        raise ValueError("it does not begin with the time since the boot") from None
    if "end" not in parts:
        raise ValueError("it stops half-way")
    counters = _counters(parts["counters"], root)
    for line in filter(str.strip, parts["interrupts"]):
        name, _, rest = line.partition(":")
        numbers = [int(word) for word in rest.split() if word.isdigit()]
        counters[name.strip(), ""] = sum(numbers)
    unread = [line for line in parts["kernel"] if line.startswith("dmesg: ")]
    kernel = tuple(line for line in parts["kernel"] if line not in unread)
    return Reading(up, counters, _links(parts["links"], root), kernel, "".join(unread[:1]))


def _counters(lines: list[str], root: str) -> dict[tuple[str, str], int]:
    patterns = [
        (name, re.compile(re.escape(root + limit.path).replace(r"\*", "([^/]+)")))
        for name, limit in rules().counters.items()
    ]
    found: dict[tuple[str, str], int] = {}
    for line in lines:
        # Files about PCIe errors have a line for each kind of error, and one with the sum.
        match = re.fullmatch(r"(/.*?):(?:TOTAL_\w+ )?(\d+)", line)
        for name, pattern in patterns if match else ():
            if device := pattern.fullmatch(match[1]):  # type: ignore[index]
                found[name, ":".join(device.groups())] = int(match[2])  # type: ignore[index]
    return found


def _links(lines: list[str], root: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    pattern = re.compile(re.escape(f"{root}{_PCI}/") + r"([^/]+)/((?:\.\./)?\w+):(.*)")
    for line in lines:
        if match := pattern.fullmatch(line):
            found.setdefault(match[1], {})[match[2]] = match[3].strip()
    return found


def unknown(names: Iterable[str]) -> list[str]:
    """One line for each name that is not the name of a counter or of a rule about links."""
    there = {**_limits(), **rules().links}
    known = ", ".join(there)
    return [
        f"health limit counters_max: {name!r} is no counter; src/assay/evidence/node_health.yaml "
        f"has {known}"
        for name in names
        if name not in there
    ]


def problems(
    before: Reading, after: Reading, allowed: Mapping[str, float] | None = None
) -> list[str]:
    """What was wrong with a node before, during and after a run, one line each.

    :param allowed: name of a counter -> how much it may grow on this partition, instead of `rise`,
        or how large it may be, instead of `most`; name of a rule about links -> 1 to leave it out.
    """
    allowed = allowed or {}
    return [
        *_moved(before, after, allowed),
        *_beyond(after, allowed),
        *_full(after, allowed),
        *_gone(before, after),
        *_degraded(after, allowed),
        *(
            f"{what} during the run: {line}"
            for line in _new(before, after)
            for what in _about(line)
        ),
    ]


def rises(before: Reading, after: Reading) -> dict[str, dict[str, int]]:
    """Name of each counter that grew -> device -> by how much.

    A counter that fell (the driver was loaded anew) counts from 0.
    """
    found: dict[str, dict[str, int]] = {}
    for (name, device), value in after.counters.items():
        old = before.counters.get((name, device))
        if old is not None and (rise := value - old if value >= old else value):
            found.setdefault(name, {})[device] = rise
    return found


def _limits() -> dict[str, Limit]:
    return {**rules().counters, **rules().interrupts}


def _moved(before: Reading, after: Reading, allowed: Mapping[str, float]) -> Iterator[str]:
    seconds = max(after.up - before.up, 0.0)
    for name, of_devices in rises(before, after).items():
        limit = _limits()[name]
        most = allowed.get(name, limit.allowed(seconds))
        if most is None:
            continue
        moved = {device: rise for device, rise in of_devices.items() if rise > most}
        if moved:
            at_most = f", at most {number(most)} in {seconds:.0f} s" if most else ""
            said = f"{limit.what}: {max(moved.values())} more during the run{at_most} ({name})"
            yield f"{_devices(moved)}{said}"


def _beyond(reading: Reading, allowed: Mapping[str, float]) -> Iterator[str]:
    for name, limit in _limits().items():
        most = allowed.get(name, limit.most)
        if limit.most is None or most is None:
            continue
        values = {
            device: value
            for (its, device), value in reading.counters.items()
            if its == name and value > most
        }
        if values:
            worst = max(values.values())
            yield f"{_devices(values)}{limit.what}: {worst}, at most {most:g} ({name})"


def _full(reading: Reading, allowed: Mapping[str, float]) -> Iterator[str]:
    """Counters that cannot grow any more, unless the site has a limit of its own for them."""
    for name, limit in _limits().items():
        full = {
            device: value
            for (its, device), value in reading.counters.items()
            if its == name and value == limit.holds
        }
        if full and name not in allowed:
            yield (
                f"{_devices(full)}{limit.what}: the counter stands at {limit.holds}, the most that "
                "it holds, and shows no new fault: reset it (perfquery -R), or name it in the "
                f"site's counters_max ({name})"
            )


def _devices(values: Mapping[str, int]) -> str:
    names = sorted((name for name in values if name), key=lambda name: (-values[name], name))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}: " if names else ""


def _gone(before: Reading, after: Reading) -> Iterator[str]:
    """Devices with a rule that were there before the run and are not there after it."""
    for address, said in sorted(before.links.items()):
        for link in rules().links.values():
            if address not in after.links and said.get("class", "").startswith(link.begins):
                yield f"{address} ({link.what}): it was there before the run, and is gone"


def _degraded(reading: Reading, allowed: Mapping[str, float]) -> Iterator[str]:
    """Devices whose link is below what the device and the bridge above it can have.

    A device whose bridge states nothing is not judged: in a virtual machine the bridge is not real.
    """
    for address, said in sorted(reading.links.items()):
        for name, link in rules().links.items():
            if allowed.get(name):
                continue
            if not said.get("class", "").startswith(link.begins):
                continue
            for end in _ENDS:
                if not getattr(link, end):
                    continue
                now = _number(said.get(f"current_link_{end}"))
                both = (_number(said.get(f"{way}max_link_{end}")) for way in _SIDES)
                known = [value for value in both if value]
                if now and len(known) == len(_SIDES) and now < min(known):
                    yield (
                        f"{address} ({link.what}): the {end} of its PCIe link is "
                        f"{said[f'current_link_{end}']}, both ends can have {min(known):g}"
                    )


def _number(text: str | None) -> float:
    """The number at the beginning of ``16.0 GT/s PCIe`` or ``16``; 0 if it is unknown.

    The kernel writes 255 for the width of a link that is not there.
    """
    match = re.match(r"\d+(?:\.\d+)?", text or "")
    number = float(match[0]) if match else 0.0
    return 0.0 if number == 255 else number


def _new(before: Reading, after: Reading) -> list[str]:
    """Lines that appeared during the run. The log is a ring: new lines are not in the older one."""
    return [] if before.unread else [line for line in after.lines if line not in before.lines]


def _about(line: str) -> list[str]:
    whats = (rule.what for rule in rules().kernel.values() if re.search(rule.pattern, line))
    return list(whats)[:1]


@dataclass(frozen=True)
class Nodes:
    """The nodes of a job.

    :ivar problems: what was wrong with them, one line each, with the node that it accuses.
    :ivar record: what the record of a case keeps: node -> ``rose``, ``unread``.
    """

    problems: tuple[str, ...]
    record: Mapping[str, Any]


def of_job(folder: Path, allowed: Mapping[str, float] | None = None) -> Nodes:
    """The readings that a job left in its stage directory.

    A node whose readings are incomplete is recorded and not judged: a job that was killed leaves
    none after the benchmark, and fails for that.
    """
    found: list[str] = []
    record: dict[str, Any] = {}
    for path in sorted(folder.glob(FILES[0])):
        host = path.name[len("health.") : -len(".before")]
        try:
            before, after = (
                parse((folder / pattern.replace("*", host)).read_text(errors="replace"))
                for pattern in FILES
            )
        except (OSError, ValueError) as error:
            record[host] = {"unread": f"the state of the node is not known: {error}"}
            continue
        record[host] = {"rose": rises(before, after), "unread": after.unread}
        found += [
            Against(f"{host}: {problem}", [host], How.DIFFERS)
            for problem in problems(before, after, allowed)
        ]
    return Nodes(tuple(found), record)
