"""The counters of nodes, ports, GPUs and logs: their one table, and the one judgement of them.

``counters.yaml`` has a row for each counter: what it is, where it is read, its limit and the source
of the limit. A counter that moved beyond its limit during a benchmark is a fault of the run, and
the line names the device. What moved within its limit is in the record.

A script on each node, made from the table, prints counters of the kernel, the links on the PCI bus,
and the lines of the kernel's log that count. The job script reads its own node. The first rank of
each other node reads that node (``link-witness.sh``), and so does each process of a meeting
(``meeting.py``). :mod:`assay.gpu.gpu_health` reads the GPUs.

The form of the counters of memory, heat, ports and PCIe errors is that of the kernel's documents. A
machine that has them was not there when this was written.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

import assay.node
from assay import files
from assay.accused import Against, How
from assay.prove import plan
from assay.quantities import number

#: The script that prints the state of a node, in the stage directory. The nodes know this name:
#: link-witness.sh and meeting.py of assay.node.
SCRIPT = "node-health.sh"

#: Files of a job with the state before and after the benchmark; ``*`` stands for the node.
FILES = ("health.*.before", "health.*.after")

#: The longest that a node may take to print its state [s].
PATIENCE = 20

#: Number of devices that one line names.
NAMED = 3

#: The word in ``health`` of a partition by which a site limits any counter.
BY_NAME = "counters_max"

#: What is read of each device on the PCI bus. ``..`` is the bridge above it.
_PCI = "/sys/bus/pci/devices"
_SIDES = ("", "../")
_PCI_FILES = (
    "class",
    *(f"current_link_{end}" for end in ("speed", "width")),
    *(f"{side}max_link_{end}" for side in _SIDES for end in ("speed", "width")),
)


#: The keys of a row that have its limit.
RULES = ("rise", "share", "most", "equals")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A counter has what and source; the head of ``counters.yaml`` explains all keys."""

    what: str
    source: str
    name: str = ""
    rise: float | None = None
    share: float | None = None
    most: float | None = None
    equals: float | None = None
    of: str = "node"
    gone: bool = False
    per: float | None = None
    holds: int | None = None
    few: float = 0
    out_of: tuple[str, ...] = ()
    site_key: str = ""
    under_test: bool = False
    other_work: bool = False
    path: str = ""
    counters: tuple[str, ...] = ()
    snmp: str = ""
    interrupt: str = ""
    pci_class: str = msgspec.field(default="", name="class")
    ends: tuple[str, ...] = ()
    pattern: str = ""
    tool: str = ""

    @property
    def rule(self) -> str:
        """Which of :data:`RULES` the limit is of; empty if there is none."""
        return next((rule for rule in RULES if getattr(self, rule) is not None), "")

    @property
    def limit(self) -> float | None:
        return getattr(self, self.rule or "rise")  # type: ignore[no-any-return]

    @property
    def paths(self) -> Mapping[str, str]:
        """The files of the row: path -> the counter that it has."""
        if not self.counters:
            return {self.path: self.name} if self.path else {}
        return {f"{self.path}/{each}": each.rpartition("/")[2] for each in self.counters}

    @property
    def names(self) -> tuple[str, ...]:
        """The counters of the row, as a reading and the record name them."""
        return tuple(dict.fromkeys(self.paths.values())) or (self.name,)

    def at_most(self, health: Mapping[str, Any], seconds: float = 0.0) -> float | None:
        """The limit on a partition, for a rise in so many seconds; None if there is none."""
        own = health.get(BY_NAME, {}).get(self.name, health.get(self.site_key))
        if own is not None or self.limit is None or self.per is None:
            return self.limit if own is None else float(own)
        return self.limit * max(1.0, seconds / self.per)


@dataclass(frozen=True)
class Reading:
    """What was read at one time.

    :ivar up: time since the boot [s]; 0 if it was not read.
    :ivar values: counter -> device -> value; a node has the device "". What a share is of is under
        the name of its row and ``out_of``.
    :ivar devices: device that may not vanish -> its row, and how a message names it.
    :ivar short: device on the PCI bus -> in what its link is below what both ends can have.
    :ivar lines: lines of the kernel's log that count -> the device that they are about, or "".
    :ivar unread: why the kernel's log could not be read; empty if it could.
    """

    up: float = 0.0
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    devices: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    short: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
    unread: str = ""


@cache
def rows() -> Mapping[str, Row]:
    """The table: name of a row -> the row."""
    found = files.own(__file__, dict[str, Row])
    return {name: msgspec.structs.replace(row, name=name) for name, row in found.items()}


_Limit = Annotated[float, msgspec.Meta(ge=0)]

#: Words of the extra `health` of a partition about the state of a node before a run; the site sets
#: the values. Those about counters are in counters.yaml.
HEALTH_WORDS: dict[str, Any] = {
    **dict.fromkeys(("load_per_cpu_max", "memory_available_min", "free_bytes_min"), _Limit),
    **dict.fromkeys(("governors", "mount_options"), list[str]),
    **dict.fromkeys(("port_rate", "link_layer", "gid_type"), str),
}


def refused_health(health: Any) -> str:
    """What is wrong with the extra `health`, in one line; empty if nothing."""
    every = rows()
    limited = tuple(n for n, r in every.items() if not (r.pattern or (r.gone and not r.pci_class)))
    named = health.get(BY_NAME) if isinstance(health, Mapping) else None
    for name in (name for name in every if isinstance(named, Mapping) and name in named):
        if name not in limited:
            return f"{BY_NAME}/{name}: has no limit to change: each case of it is a fault"
    of_counters = {row.site_key: _Limit for row in every.values() if row.site_key}
    by_name = {BY_NAME: dict[Literal[limited], _Limit]}  # type: ignore[valid-type]
    words = {**HEALTH_WORDS, **of_counters, **by_name}
    fields = [(word, kind, None) for word, kind in words.items()]
    return files.misshapen(health, msgspec.defstruct("Health", fields, forbid_unknown_fields=True))


# --- reading a node -------------------------------------------------------------------------------

#: Line of a job script that waits for the reading that :func:`in_job` began.
WAIT = 'wait "$assay_health"'


def in_job(when: str) -> str:
    """A line of a job script that keeps the state of its node, ``before`` or ``after``.

    The reading runs beside other evidence, so that it costs no time. :data:`WAIT` is its end.
    """
    file = f"health.$(uname -n).{when}"
    # Files of an earlier launch in this directory would stand for nodes of this one.
    clean = 'rm -f "$assay_stage"/health.*; ' if when == "before" else ""
    look = f'timeout {PATIENCE} sh "$assay_stage"/{SCRIPT} job'
    return f'{clean}{look} >"$assay_stage/{file}" 2>/dev/null & assay_health=$!'


def script(root: str = "") -> str:
    """The script that prints the state of a node. It needs only sh, cat, grep and dmesg.

    With an argument it asks Slurm for other jobs on the nodes of its job.

    :param root: the folder in which ``/sys`` and ``/proc`` are, for a test.
    """
    environment = files.templates(Path(__file__).parent)
    environment.filters["quote"] = shlex.quote
    return environment.get_template("node-health.jinja").render(
        root=root,
        machine=Path(assay.node.__file__).with_name("machine.sh").read_text(encoding="utf-8"),
        rows=[row for row in rows().values() if not row.tool],
        paths=_paths(),
        pci=_PCI,
        pci_files=_PCI_FILES,
    )


def _out_of(row: Row) -> str:
    return f"{row.name} out_of"


@cache
def _paths() -> Mapping[str, str]:
    """Every file of a counter, as a pattern of the shell -> the counter, or `out_of` of its row."""
    found: dict[str, str] = {}
    for row in rows().values():
        found.update(row.paths)
        if row.path:
            found.update({f"{row.path}/{each}": _out_of(row) for each in row.out_of})
    return found


def parse_counters(text: str) -> Reading:
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
    values = {**_of_files(parts["counters"]), **_of_protocols(parts.get("protocols", []))}
    for line in filter(str.strip, parts["interrupts"]):
        name, _, rest = line.partition(":")
        values[name.strip()] = {"": sum(int(word) for word in rest.split() if word.isdigit())}
    devices, short = _of_links(parts["links"])
    kernel = parts["kernel"]
    unread = next((line for line in kernel if line.startswith("dmesg: ")), "")
    log = dict.fromkeys((line for line in kernel if not line.startswith("dmesg: ")), "")
    return Reading(up, values, devices, short, log, unread)


def _of_files(lines: list[str]) -> dict[str, dict[str, float]]:
    patterns = [
        (name, re.compile(re.escape(path).replace(r"\*", "([^/]+)")))
        for path, name in _paths().items()
    ]
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        # Files about PCIe errors have a line for each kind of error, and one with the sum.
        match = re.fullmatch(r"(/.*?):(?:TOTAL_\w+ )?(\d+)", line)
        for name, pattern in patterns if match else ():
            if device := pattern.fullmatch(match[1]):  # type: ignore[index]
                values, key = found.setdefault(name, {}), ":".join(device.groups())
                values[key] = values.get(key, 0) + int(match[2])  # type: ignore[index]
    return found


def _of_protocols(lines: list[str]) -> dict[str, dict[str, float]]:
    """Each protocol has a line with the names of its fields, and one with their values."""
    fields: dict[str, str] = {}
    for names, numbers in zip(lines[::2], lines[1::2]):
        protocol, *words = names.split()
        fields.update((f"{protocol[:-1]} {word}", n) for word, n in zip(words, numbers.split()[1:]))
    asked = {
        source: name
        for row in rows().values()
        if row.snmp
        for source, name in ((row.snmp, row.name), *((each, _out_of(row)) for each in row.out_of))
    }
    return {name: {"": int(fields[it])} for it, name in asked.items() if it in fields}


def _of_links(lines: list[str]) -> tuple[dict[str, tuple[str, str]], dict[str, list[str]]]:
    """`devices` and `short` of a reading.

    A device whose bridge states nothing is not judged: that of a virtual machine is not real.
    """
    found: dict[str, dict[str, str]] = {}
    pattern = re.compile(re.escape(f"{_PCI}/") + r"([^/]+)/((?:\.\./)?\w+):(.*)")
    for line in lines:
        if match := pattern.fullmatch(line):
            found.setdefault(match[1], {})[match[2]] = match[3].strip()
    devices: dict[str, tuple[str, str]] = {}
    short: dict[str, list[str]] = {}
    of_classes = [row for row in rows().values() if row.pci_class]
    for address, said in sorted(found.items()):
        for row in (row for row in of_classes if said.get("class", "").startswith(row.pci_class)):
            devices[address] = row.name, f"{address} ({row.what})"
            short[address] = []
            for end in row.ends:
                now = leading(said.get(f"current_link_{end}"))
                both = [leading(said.get(f"{side}max_link_{end}")) for side in _SIDES]
                if 0 < now < min(both):
                    it = said[f"current_link_{end}"]
                    short[address].append(
                        f"the {end} of its PCIe link is {it}, both ends can have {min(both):g}"
                    )
    return devices, short


def leading(text: str | None) -> float:
    """The number at the beginning of ``16.0 GT/s PCIe`` or ``16``; 0 if it is unknown.

    The kernel writes 255 for the width of a link that is not there.
    """
    match = re.match(r"\d+(?:\.\d+)?", text or "")
    number = float(match[0]) if match else 0.0
    return 0.0 if number == 255 else number


# --- the judgement --------------------------------------------------------------------------------


def reading_problems(
    before: Reading,
    after: Reading,
    health: Mapping[str, Any] | None = None,
    tested: Collection[str] = (),
) -> list[str]:
    """What was wrong before, during and after a run, one line each.

    :param tested: the devices that the run measures, for rows that are judged on these only.
    """
    return [line for _, line in _Run(before, after, health or {}, tested).judged()]


def rises(before: Reading, after: Reading) -> dict[str, dict[str, float]]:
    """Name of each counter that grew -> device -> by how much.

    A counter that fell (the driver was loaded anew) counts from 0. A device that came during the
    run has no rise.
    """
    found: dict[str, dict[str, float]] = {}
    for name in (name for row in rows().values() for name in row.names):
        for device in after.values.get(name, ()):
            if rise := _rise(before, after, name, device):
                found.setdefault(name, {})[device] = rise
    return found


def _rise(before: Reading, after: Reading, name: str, device: str) -> float:
    then, now = (reading.values.get(name, {}).get(device) for reading in (before, after))
    if then is None or now is None:
        return 0
    return now - then if now >= then else now


class _Run(NamedTuple):
    """The readings before and after a run, and what limits them."""

    before: Reading
    after: Reading
    health: Mapping[str, Any]
    tested: Collection[str]

    def judged(self) -> Iterator[tuple[Row, str]]:
        """What is wrong, one line each, with the row that it breaks."""
        both = self.before, self.after
        for row in rows().values():
            has = (it for reading in both for n in row.names for it in reading.values.get(n, ()))
            devices = list(dict.fromkeys(has))
            for against in (self._beyond, self._full):
                bad = {device: it for device in devices if (it := against(row, device))}
                if bad:
                    _, said = max(bad.values(), key=lambda each: each[0])
                    yield row, f"{self._shown(bad)}{row.what}{said}"
        for device, (name, shown) in sorted(self.after.devices.items()):
            if not rows()[name].at_most(self.health):
                for said in self.after.short.get(device, ()):
                    yield rows()[name], f"{shown}: {said}"
        lost = self.before.devices.keys() - self.after.devices.keys()
        for device in sorted(lost):
            name, shown = self.before.devices[device]
            # The links of a GPU go with it.
            if rows()[name].gone and device.split()[0] not in lost - {device}:
                yield rows()[name], f"{shown}: it was there before the run, and is gone"
        # The log is a ring: a new line is not in the older reading.
        for line, device in () if self.before.unread else self.after.lines.items():
            about = [row for row in rows().values() if row.pattern and re.search(row.pattern, line)]
            if about and line not in self.before.lines:
                at = f"{device}: " if device else ""
                yield about[0], f"{at}{about[0].what} during the run: {line}"

    def _beyond(self, row: Row, device: str) -> tuple[float, str] | None:
        """By how much a counter of a device is beyond its limit, and how a line says it."""
        seconds = max(self.after.up - self.before.up, 0.0)
        limit = row.at_most(self.health, seconds)
        if limit is None or (row.under_test and device not in self.tested):
            return None
        grown = {name: _rise(self.before, self.after, name, device) for name in row.names}
        count = sum(grown.values())
        fell = [
            f"{name} {then:g} before, {now:g} after"
            for name in row.names
            for then, now in [[it.values.get(name, {}).get(device, math.nan) for it in self[:2]]]
            if device in self.tested and now < then
        ]
        if fell:
            return count, f": set back, so earlier ones are not known ({', '.join(fell)})"
        more = f": {count:g} more during the run"
        if row.rule in ("rise", "") and count > limit:
            at_most = f", at most {number(limit)} in {seconds:.0f} s" if limit else ""
            return count, f"{more}{at_most} ({_each(row, grown)})"
        if row.rule == "share":
            out_of = _rise(self.before, self.after, _out_of(row), device)
            if count > max(limit * out_of, row.few):
                share = f" among {out_of:g}, at most {number(100 * limit)} %"
                return count, f"{more}{share} ({_each(row, grown)})"
        ends = (reading.values.get(row.name, {}) for reading in (self.before, self.after))
        value = max(values.get(device, 0) for values in ends)
        if row.rule not in ("equals", "most") or value <= limit:
            return None
        said = more if count and not limit else f": {value:g}, at most {limit:g}"
        return value, f"{said if row.rule == 'most' else ''} ({row.name})"

    def _full(self, row: Row, device: str) -> tuple[float, str] | None:
        """The same of a counter that cannot grow any more, if the site does not limit it."""
        value = self.after.values.get(row.name, {}).get(device)
        if value is None or value != row.holds or row.name in self.health.get(BY_NAME, {}):
            return None
        return value, (
            f": the counter stands at {row.holds}, the most that it holds, and shows no new fault: "
            f"reset it (perfquery -R), or name it in the site's {BY_NAME} ({row.name})"
        )

    def _shown(self, bad: Mapping[str, tuple[float, str]]) -> str:
        """The devices with the largest values, as a line begins."""
        known = {**self.before.devices, **self.after.devices}
        names = sorted((name for name in bad if name), key=lambda name: (-bad[name][0], name))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        shown = (known.get(name, ("", name))[1] for name in names[:NAMED])
        return f"{', '.join(shown)}{more}: " if names else ""


def _each(row: Row, grown: Mapping[str, float]) -> str:
    """The name of a row, with the single counters of a sum."""
    each = ", ".join(f"{name} {rise:g}" for name, rise in grown.items() if rise)
    return row.name if row.names == (row.name,) else f"{row.name}: {each}"


# --- the nodes of a job ---------------------------------------------------------------------------


def beside(folder: Path) -> list[str]:
    """A doubt for each other job of Slurm that ran on a node of a job, by :func:`script`."""
    on: dict[str, set[str]] = {}
    for path in sorted(folder.glob("health.*")):
        host = path.name[len("health.") :].rpartition(".")[0]
        for job, nodes in re.findall(r"/job_(\d+)/(?: (\S+)$)?", path.read_text(), re.MULTILINE):
            on.setdefault(job, set()).add(nodes or host)
    said = "and may change what is measured: let the site's access ask for whole nodes"
    return [
        plan.Doubt(f"job {job} ran beside this one on {','.join(sorted(nodes))} {said}")
        for job, nodes in sorted(on.items())
    ]


def counter_problems(
    folder: Path, health: Mapping[str, Any] | None = None, tested: Collection[str] = ()
) -> tuple[list[str], list[str], dict[str, Any]]:
    """What was wrong with the nodes of a job, by the readings in its stage directory.

    A node whose readings are incomplete is recorded and not judged: a job that was killed leaves
    none after the benchmark, and fails for that.

    :param tested: the network devices that the job measured between nodes.
    :returns: the problems, one line each, with the node that it accuses; the same, where other work
        on a shared machine may be the cause; what the record keeps: node -> ``rose``, ``unread``.
    """
    found: dict[bool, list[str]] = {False: [], True: []}
    record: dict[str, Any] = {}
    for path in sorted(folder.glob(FILES[0])):
        host = path.name[len("health.") : -len(".before")]
        try:
            before, after = (
                parse_counters((folder / pattern.replace("*", host)).read_text(errors="replace"))
                for pattern in FILES
            )
        except (OSError, ValueError) as error:
            record[host] = {"unread": f"the state of the node is not known: {error}"}
            continue
        record[host] = {"rose": rises(before, after), "unread": after.unread}
        for row, line in _Run(before, after, health or {}, tested).judged():
            how = How.LOSSY if row.of == "port" else How.DIFFERS
            found[row.other_work].append(Against(f"{host}: {line}", [host], how))
    return found[False], found[True], record
