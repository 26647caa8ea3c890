"""What a machine says that it is, and whether that is what the site says.

``machine.sh`` prints it on each node, from ``/proc`` and ``/sys``. Outputs of ``nvidia-smi -L``,
``rocminfo`` and ``dmidecode`` are read if they are there. Each statement is looked up in the
catalogue of parts (:mod:`assay.judge.peaks`). A part is named only if every word of the machine
fits: a virtual machine may state one processor and have the flags of another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.accused import Against, How
from assay.judge import Hardware, Known
from assay.prove import counters

#: File or command -> its text.
Tree = Mapping[str, str]

#: Models of GPUs, in what the driver, nvidia-smi -L and rocminfo print.
_GPUS = (
    r"^Model: *\t* *(.+?) *$",
    r"^GPU \d+: (.+?) \(UUID",
    r"^ *Uuid: *GPU-\S+ *\n *Marketing Name: *(.*?) *$",
)

#: Share of the stated memory that a node has at least. The kernel keeps 1.6 % for itself (64 B for
#: each page of 4 KiB), and what a kernel after a crash needs; one of 16 modules is 6 %.
LEAST_MEMORY = 0.95


class Stated(NamedTuple):
    """A statement of a machine about one part.

    :ivar names: the part in its words; the first is the most exact.
    :ivar about: other words of the machine, for `where` of a part.
    :ivar flags: of a processor.
    """

    role: str
    by: str
    names: tuple[str, ...]
    about: str = ""
    flags: frozenset[str] = frozenset()


class Part(NamedTuple):
    """A part of a machine.

    :ivar name: its name in the catalogue; empty if it is unknown.
    :ivar alike: names of all parts that have the statement.
    """

    stated: Stated
    name: str
    why: str = ""
    alike: tuple[str, ...] = ()

    def __str__(self) -> str:
        role, by, names, *_ = self.stated
        said = f"{role} {self.name or 'unknown'}: {by} says {names[0]}"
        return f"{said}; {self.why}" if self.why else said


def tree(text: str) -> dict[str, str]:
    """The files in an output of ``machine.sh``: path -> text."""
    found: dict[str, str] = {}
    for path, line in re.findall(r"^(/\S+?/[a-z_]+):(.*)$", text, re.MULTILINE):
        found[path] = f"{found[path]}\n{line}" if path in found else line
    return found


def parts(seen: Tree, known: Known) -> list[Part]:
    """The parts that a machine states, as often as it states them."""
    return [named(each, known.get(each.role, {})) for each in _stated(seen)]


def named(stated: Stated, known: Mapping[str, Hardware]) -> Part:
    """The part that a statement is about, of those with its role."""
    words = [name.lower().removeprefix("nvidia ") for name in stated.names]

    def has(part: Hardware) -> bool:
        names = [name.lower().removeprefix("nvidia ") for name in part.names]
        # An older kernel states a rate without the generation.
        return any(n == w or n.startswith(f"{w} (") for n in names for w in words)

    alike = {name: part for name, part in known.items() if has(part)}
    there = {n: p for n, p in alike.items() if p.where and re.search(p.where, stated.about)}
    found = there or {name: part for name, part in alike.items() if not part.where}
    if len(found) != 1:
        several = " or ".join(sorted(found or alike))
        do = "name it in the extra hardware" if several else "add an entry with this name"
        why = f"it may be {several}: {do}" if several else f"no part has this name: {do}"
        return Part(stated, "", f"{why} (site-config/hardware/)", tuple(found or alike))
    ((name, part),) = found.items()
    telltale = {flag for each in known.values() for flag in each.flags}
    beyond = sorted(stated.flags & telltale - {*part.flags})
    if part.flags and beyond:
        why = f"{name} does not have its flags {', '.join(beyond)}: these words contradict"
        return Part(stated, "", f"{why} each other, as those of a virtual machine may")
    if part.flags and part.flags[0] not in stated.flags:
        return Part(stated, "", f"it hides the flag {part.flags[0]}, which {name} has")
    return Part(stated, name, alike=tuple(found))


def _stated(seen: Tree) -> Iterator[Stated]:
    gpus = {
        by: [model for form in _GPUS for model in re.findall(form, text, re.MULTILINE)]
        for by, text in seen.items()
        if not by.startswith(("/sys", "/proc/c"))
    }
    dmi = [seen.get(f"/sys/class/dmi/id/{name}", "") for name in ("sys_vendor", "product_name")]
    words = " ".join([*dmi, *(model for models in gpus.values() for model in models)])
    if said := seen.get("/proc/cpuinfo"):
        yield from _processor("/proc/cpuinfo", said, words)
    for by, models in gpus.items():
        yield from (Stated("gpu", re.sub(r"/0[^/]*/", "/*/", by), (m,)) for m in models if m)
    yield from _links(seen)
    yield from _slots(seen)
    for kind, _, speed in re.findall(
        r"^\s+Type: (DDR\d)\b(?s:(.*?))^\s+Configured (?:Memory|Clock) Speed: (\d+) M",
        seen.get("dmidecode", ""),
        re.MULTILINE,
    ):
        yield Stated("memory", "dmidecode", (f"{kind} {speed}",))


def _processor(by: str, text: str, words: str) -> Iterator[Stated]:
    lines = re.findall(r"^([\w ()]+?)\s*:\s*(.*?)\s*$", text, re.MULTILINE)
    said = {key.lower().replace("_", " "): value for key, value in reversed(lines)}
    vendor, model = said.get("vendor id", ""), said.get("model name", "")
    flags = frozenset((said.get("flags") or said.get("features") or "").split())
    if "cpu part" in said:
        names = [f"{said.get('cpu implementer', '?')}/{said['cpu part']}"]
    elif "cpu family" in said:
        exact = f"{vendor} {said['cpu family']}/{said.get('model', '?')}"
        names = [f"{exact}/{said.get('stepping', '?')}", exact]
    else:  # POWER
        names = [said.get("cpu", "").partition(",")[0]]
    if any(names):
        yield Stated("processor", by, tuple(names), f"{model} {words}", flags)


def _links(seen: Tree) -> Iterator[Stated]:
    for path, rate in seen.items():
        if port := re.fullmatch(r"(/sys/class/infiniband/([^/]+))/ports/\d+/rate", path):
            layer, state = (seen.get(path[:-4] + name, "") for name in ("link_layer", "state"))
            ids = [seen.get(f"{port[1]}/device/{name}", "")[2:] for name in ("vendor", "device")]
            if "ACTIVE" in state:
                yield Stated("link", path, (f"{layer} {rate}",), f"{port[2]} {':'.join(ids)}")
        elif device := re.fullmatch(r"/sys/class/(?:net|cxi)/(.+?)/speed", path):
            kind = re.sub(r"\d.*", "", device[1])
            # An interface without a cable states -1; IP over InfiniBand is no link of its own.
            if rate.isdigit() and int(rate) and kind != "ib":
                kind = kind if kind in ("hsn", "cxi") else "ethernet"
                yield Stated("link", path, (f"{kind} {rate} Mb/s",), device[1])


def _slots(seen: Tree) -> Iterator[Stated]:
    """The PCIe links of GPUs and NVMe drives, as fast and wide as both their ends can be."""
    for path, code in seen.items():
        if slot := re.fullmatch(r"(/sys/bus/pci/devices/[^/]+)/class", path):
            ends = [f"{slot[1]}/{end}max_link_" for end in ("", "../")]
            speed, width = (
                min(counters.leading(seen[end + what]) for end in ends if end + what in seen)
                if ends[0] + what in seen
                else 0
                for what in ("speed", "width")
            )
            role = "disk" if code.startswith("0x0108") else "pcie"
            if speed and width:  # a virtual slot states none
                yield Stated(role, slot[1], (f"{speed} GT/s x{width:.0f}",))


# --- what the site says ---------------------------------------------------------------------------


def unlike(
    host: str, seen: Tree, known: Known, extras: Mapping[str, Any], cpus: int | None = None
) -> list[Against]:
    """In what a node differs from the description of its partition, one line each.

    A part that the catalogue does not know is not compared, nor what a site says without a name.

    :param extras: of the partition: ``hardware``, ``memory_bytes``, ``network_device``.
    """
    lines = dict.fromkeys(_unlike(seen, known, extras, cpus))
    return [Against(f"{host}: {line}", [host], How.DIFFERS) for line in lines]


def _unlike(seen: Tree, known: Known, extras: Mapping[str, Any], cpus: int | None) -> Iterator[str]:
    stated = extras.get("memory_bytes") or 0
    memory = re.search(r"MemTotal:\s*(\d+) kB", seen.get("/proc/meminfo", ""))
    if memory and int(memory[1]) * 1024 < LEAST_MEMORY * stated:
        yield (
            f"the partition says {stated / 2**30:.1f} GiB of memory (memory_bytes), the node has "
            f"{int(memory[1]) / 2**20:.1f} GiB"
        )
    last = re.search(r"(\d+)$", seen.get("/sys/devices/system/cpu/present", ""))
    if cpus and last and int(last[1]) + 1 < cpus:
        yield f"the partition says {cpus} processors, the node has {int(last[1]) + 1}"
    named, said = extras.get("hardware", {}), str(extras.get("network_device", "")).split(",")
    devices = [name.partition(":")[0] for name in said]
    for part in parts(seen, known):
        role, by, words, *_ = part.stated
        if (wanted := named.get(role)) is None:
            continue
        entry = known[role].get(wanted, Hardware())
        if role == "link" and any(name.startswith("NV") for name in entry.names):
            continue  # it joins GPUs, and no port states its rate
        same = [known[role][name].bandwidth for name in part.alike] if role == "link" else []
        device = re.search(r"/(?:infiniband|net)/([^/]+)", by)
        other = role == "link" and (device is None or device[1] not in devices)
        known_to_differ = part.alike and wanted not in part.alike and entry.names
        if known_to_differ and not other and (not same or entry.bandwidth not in same):
            yield f"the partition says {role} {wanted}, the node says {words[0]} ({by})"


def of_job(
    folder: Path, known: Known, extras: Mapping[str, Any], cpus: int | None
) -> tuple[list[Against], list[dict[str, Any]]]:
    """What the nodes of a job are, by the readings before the benchmark in its stage directory.

    :returns: the differences from the description; groups of equal nodes, as the record has them:
        ``nodes``, ``parts`` as lines, and ``hardware``, their known names.
    """
    wrong: list[Against] = []
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in sorted(folder.glob(counters.FILES[0])):
        host = path.name[len("health.") : -len(".before")]
        text = re.search(r"^\[machine\]$(.*?)^\[", path.read_text(errors="replace"), re.M | re.S)
        seen = tree(text[1] if text else "")
        wrong += unlike(host, seen, known, extras, cpus)
        found = parts(seen, known)
        lines = tuple(dict.fromkeys(map(str, found)))
        names = sorted({f"{part.stated.role} {part.name}" for part in found if part.name})
        group = {"nodes": [], "parts": list(lines), "hardware": names}
        groups.setdefault(lines, group)["nodes"].append(host)
    return wrong, list(groups.values())


def kind_of_nodes(groups: Iterable[Mapping[str, Any]]) -> str:
    """The GPUs and processors of the groups of nodes in a record; empty if none is known."""
    names = {name for group in groups for name in group["hardware"]}
    return ", ".join(sorted(name for name in names if name.startswith(("gpu ", "processor "))))


def alike(found: Sequence[Part], *roles: str) -> dict[str, str]:
    """The extra ``hardware`` of a place: role -> name, of the roles whose parts are all alike."""
    names: dict[str, set[str]] = {role: set() for role in roles}
    for part in found:
        # A virtual machine has an unknown share of its processor.
        if part.stated.role in names and "hypervisor" not in part.stated.flags:
            names[part.stated.role].add(part.name)
    return {role: min(each) for role, each in names.items() if len(each) == 1 and min(each)}
