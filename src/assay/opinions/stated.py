"""The hardware that a text states: by lscpu, nvidia-smi, rocm-smi, ibstat and dmidecode.

A part is named only if all words about it name the same one. The names are those of the catalogue
(:mod:`assay.judge.peaks`), found as for the node of a run (:mod:`assay.prove.identity`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from assay.judge import peaks
from assay.parse import Parsed
from assay.prove import identity

#: GPU -> the links between all GPUs of its board, where a switch joins them (HGX).
_SWITCHED = {
    r"a[18]00-sxm4-.*": "nvlink3-12-links",
    r"(h100|h200)-sxm.*": "nvlink4-18-links",
    r"b[23]00-.*": "nvlink5-18-links",
}

#: The model of a GPU in outputs of nvidia-smi -L, BabelStream, nvbandwidth and gpu-burn; in the
#: table of nvidia-smi, which shortens long names, and its -q; in those of rocm-smi and rocminfo.
_GPU = re.compile(
    r"^(?:(?:GPU \d+: |Using CUDA device |Using HIP device |Device \d+: |#? *Device name: +)"
    r"([^\n(]*?)(?: \(.*)?|\| +\d+ +(\S.*?) +(?:On|Off|N/A) +\|.*|[ \t]+Product Name +: (\S.*?)"
    r"|GPU\[\d+\]\s*: Card [Ss]eries:\s*(\S.*?)"
    r"|[ \t]*Uuid: +GPU-\S+ *\n *Marketing Name: +(\S.*?)) *$",
    re.MULTILINE,
)

#: A port in outputs of ibstatus, and of ibstat, which does not name the generation: its state, if
#: the text has it, its rate and its link layer.
_OTHER = r"(?![ \t]*(?:[Ss]tate|[Rr]ate):).*"
_PORT = re.compile(
    rf"^(?:[ \t]*[Ss]tate:[ \t]+(?:\d: )?(\w+)[ \t]*\n(?:{_OTHER}\n){{0,9}}?)?"
    r"[ \t]*(?:rate:[ \t]+(\d.*\))|Rate: (\d+))[ \t]*$"
    rf"(?:\n{_OTHER}){{0,9}}?(?:\n[ \t]*[Ll]ink.layer:[ \t]*(\w+)|\Z|(?=\n))",
    re.MULTILINE,
)

_MEMORY = re.compile(
    r"^[ \t]*Mem(?:Total)?:\s+(\d+(?:\.\d+)?) ?(kB|Gi?|Ti?|Mi?)(?:\s|$)", re.MULTILINE
)
_BYTES = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Node(NamedTuple):
    """The node of a text: 0 stands for what it does not state, or states in two ways.

    :ivar cores: of all sockets.
    :ivar cpus: hardware threads of all of them.
    :ivar clock: the nominal one [GHz], as the model's name has it.
    :ivar cache: of the last level, of all sockets [B].
    :ivar memory: [B].
    :ivar modules: of memory, as dmidecode lists them; the mean of all nodes of the text.
    """

    sockets: int = 0
    cores: int = 0
    cpus: int = 0
    clock: float = 0
    cache: int = 0
    memory: float = 0
    modules: int = 0


def node_of(text: str, case: Mapping[str, str]) -> Node:
    """What lscpu, free and dmidecode say in a text, and what the caller says of a case."""

    def only(pattern: str) -> str:
        found = {*re.findall(rf"^[ \t]*{pattern}[ \t]*$", text, re.MULTILINE)}
        return found.pop() if len(found) == 1 else ""

    def number(key: str, name: str) -> int:
        said = case.get(key) or only(rf"{re.escape(name)}:\s+(\d+)")
        return int(said) if str(said).isdigit() else 0

    sockets, each = number("sockets", "Socket(s)"), number("", "Core(s) per socket")
    # lscpu has said since 2.34 of how many caches it states the sum.
    level = re.fullmatch(r"(\d+(?:\.\d+)?) ([KMG])iB \(.*\)", only(r"L3(?: cache)?:\s+(\S.*?)"))
    memory = {*_MEMORY.findall(text)}
    modules = re.findall(r"^[ \t]+Configured (?:Memory|Clock) Speed: \d+ M", text, re.MULTILINE)
    nodes = max(text.count("# dmidecode "), len(re.findall(r"(?m)^Architecture:", text)), 1)
    value, unit = memory.pop() if len(memory) == 1 else ("0", "G")
    return Node(
        sockets,
        number("cores", "") or sockets * each,
        number("", "CPU(s)"),
        float(only(r"Model name:\s+.*@ (\d\.\d+)GHz") or 0),
        int(float(level[1]) * _BYTES[level[2].upper()]) if level else 0,
        float(value) * _BYTES[unit[0].replace("K", "k")],
        len(modules) // nodes,
    )


def hardware_of(
    texts: Sequence[str], parsed: Parsed, site: Path, said: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Role -> name in the catalogue and who says so: the caller, or words of a text.

    On a board with a switch between its GPUs, the model of the GPU also says which links it has.

    :param texts: the output, and what it stands in, which counts for what the output does not say.
    :param said: role -> name, as the caller says.
    """
    found = {role: (name, "stated") for role, name in said.items()}
    gpus = parsed.facts.get("gpus")
    gpus = gpus if isinstance(gpus, (list, tuple)) else ()
    models = [str(gpu["name"]) for gpu in gpus if "name" in gpu]
    one_board = parsed.family == "nccl-tests" and parsed.facts.get("nodes", 1) == 1
    # A part of a text stands after empty lines, over which no pattern may search again and again.
    for text in (re.sub(r"\n\s*\n", "\n", text) for text in texts):
        for role, name in _parts_of(text, models, site).items():
            if one_board and role == "link":  # its ports carry nothing between its GPUs
                continue
            own, by = found.setdefault(role, (name, "as the output says"))
            if own != name and by == "stated":
                found[role] = own, f"stated; the output says {name}"
    if one_board and "link" not in found and "gpu" in found:
        links = [its for gpu, its in _SWITCHED.items() if re.fullmatch(gpu, found["gpu"][0])]
        if links and len(gpus) > 2:
            found["link"] = links[0], "of such a GPU"
    return found


def _parts_of(text: str, models: Sequence[str], site: Path) -> dict[str, str]:
    models = [*models, *(model for groups in _GPU.findall(text) for model in groups if model)]
    models = [model.strip() for model in models if not model.endswith("...")]
    ports = [
        f"{layer or 'InfiniBand'} {rate or f'{gbit} Gb/sec'}"
        for state, rate, gbit, layer in _PORT.findall(text)
        if state.lower() in ("", "active")
    ]
    found = {
        role: _part(site, role, frozenset(w)) for role, w in (("gpu", models), ("link", ports))
    }
    return {role: name for role, name in found.items() if name} | _processor_and_memory(text, site)


def _processor_and_memory(text: str, site: Path) -> dict[str, str]:
    """Processor and memory by lscpu and dmidecode; a virtual machine has an unknown share of it."""
    if "Hypervisor vendor:" in text or not re.search("Vendor ID:|Configured ", text):
        return {}
    wrapped = re.sub(r"(?m)^([ \t]*Flags: +)(.*(?:\n {16,}\S.*)*)", _flags_unwrapped, text)
    # Each lscpu begins with the architecture.
    each = re.split(r"(?m)^Architecture:", wrapped)[1:] or [wrapped]
    lines = ["\n".join(map(str.strip, lscpu.split("\n"))) for lscpu in each]
    known = peaks.hardware(site, "processor", "memory")
    said = [part for own in lines for part in identity.parts({"/proc/cpuinfo": own}, known)]
    said += identity.parts({"dmidecode": text}, {"memory": known["memory"]})
    return identity.alike(said, "processor", "memory")


def _flags_unwrapped(flags: re.Match[str]) -> str:
    """The flags of lscpu on one line, as before a terminal broke it."""
    first, *more = flags[2].split("\n")
    return flags[1] + first + "".join(line[len(flags[1]) :] for line in more)


@cache
def _part(site: Path, role: str, words: frozenset[str]) -> str:
    """The only part of the catalogue that these words name; empty if there is none."""
    known = peaks.hardware(site, role)[role]
    stated = (identity.Stated(role, "the output", (word,)) for word in words)
    names = {identity.named(each, known).name for each in stated}
    return names.pop() if len(names) == 1 else ""
