"""Where the topology of a network comes from: Slurm, or a file.

Formats: ``scontrol show topology`` of the plugin topology/tree, which is that of topology.conf(5)
of Slurm 22.05, topology.yaml(5) of Slurm 25.05, and ibnetdiscover(8) of infiniband-diags. A site
may write the first by hand:

    SwitchName=leaf1 Nodes=node[01-04]
    SwitchName=leaf2 Nodes=node[05-08] Switches=leaf1
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml
from reframe.utility import nodelist_expand

from assay.fleet.topology.fabric import Fabric
from assay.prove.launch import short_name

#: The value of a site that asks Slurm; any other value is the path of a file.
SLURM = "slurm"
COMMAND = ("scontrol", "show", "topology")


def read_topology(source: str, folder: Path) -> Fabric:
    """The topology that a site names: ``slurm``, or a file.

    :param folder: where a relative path begins.
    :raises ValueError: it cannot be read; the message is one line that names the source.
    """
    if source == SLURM:
        try:
            done = subprocess.run(
                COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(f"{' '.join(COMMAND)}: {error}") from None
        try:
            return of_slurm(done.stdout)
        except ValueError as error:
            why = done.stderr.strip().splitlines()
            raise ValueError(f"{' '.join(COMMAND)}: {why[-1] if why else error}") from None
    path = folder / source
    try:
        return parse_topology(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse_topology(text: str) -> Fabric:
    """A topology from the text of a file, whose format its lines show.

    :raises ValueError: it is none of the formats, or it is damaged.
    """
    if re.search(r"^ *- *topology:", text, re.MULTILINE):
        return of_yaml(text)
    of = of_ibnetdiscover if re.search(r'^Switch\s+\d+ "', text, re.MULTILINE) else of_slurm
    return of(text)


def of_yaml(text: str) -> Fabric:
    """The tree of a ``topology.yaml``: that which is the default of the cluster, else the first.

    :raises ValueError: it is damaged, or has no tree.
    """
    try:
        every = sorted(yaml.safe_load(text), key=lambda one: not one.get("cluster_default"))
        trees = [one["tree"]["switches"] for one in every if "tree" in one]
        rows = [(s["switch"], s.get("nodes", ""), s.get("children", "")) for s in trees[0]]
    except IndexError:
        raise ValueError("no topology of it is a tree; name a file with the switches") from None
    except (yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"it has not the form of Slurm's topology.yaml: {said}") from None
    return of_slurm("\n".join("SwitchName={} Nodes={} Switches={}".format(*row) for row in rows))


def of_slurm(text: str) -> Fabric:
    """The topology that ``scontrol show topology`` printed.

    A switch above others lists all their nodes, too. A node belongs to the lowest switch.

    :raises ValueError: it names no switch, or a line is damaged.
    """
    listed: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = dict(word.partition("=")[::2] for word in line.split())
        if "BlockName" in words:
            raise ValueError("topology/block has no switches; name a file with the switches")
        if "SwitchName" not in words:
            continue
        name = words["SwitchName"]
        if not name or not (words.get("Nodes") or words.get("Switches")):
            raise ValueError(f"line {number}: no switch with nodes: {line.strip()[:60]}")
        below[name] = nodelist_expand(words.get("Switches", ""))
        listed[name] = [short_name(node) for node in nodelist_expand(words.get("Nodes", ""))]
    if not listed:
        raise ValueError("it names no switch; Slurm needs the plugin topology/tree")
    trunks = [(name, other) for name, others in below.items() for other in others]
    switches = {}
    for name, nodes in listed.items():
        lower = {node for other in below[name] for node in listed.get(other, ())}
        switches[name] = [node for node in nodes if node not in lower]
    return Fabric(switches, trunks)


#: A switch of ibnetdiscover with its description; a line of a port of it: who is at its other end.
_SWITCH = re.compile(r'Switch\s+\d+ "(?P<id>[^"]+)"\s+# "(?P<name>[^"]*)"')
_PORT = re.compile(r'\[\d+\]\S*\s+"(?P<id>[HSR]-[^"]+)"\[\d+\]\S*\s+# "(?P<name>[^"]*)"')


def of_ibnetdiscover(text: str) -> Fabric:
    """The topology that ibnetdiscover printed.

    The first word of the description of an adapter (``node01 mlx5_0``) is the name of its node. A
    node with adapters on several switches is refused, since the tournament has one path for each
    pair. Switches are named by their descriptions, and by their GUIDs if these are equal.

    :raises ValueError: it has no switch, or a node has several.
    """
    names: dict[str, str] = {}
    ports: list[tuple[str, str, str]] = []
    here = ""
    for line in text.splitlines():
        if match := _SWITCH.match(line):
            here = match["id"]
            names[here] = match["name"].strip()
        elif line.startswith(("Ca", "Rt")):
            here = ""
        elif here and (match := _PORT.match(line)):
            ports.append((here, match["id"], match["name"]))
    if not names:
        raise ValueError("it has no switch")
    said = list(names.values())
    called = {one: name if name and said.count(name) == 1 else one for one, name in names.items()}
    switches: dict[str, dict[str, None]] = {name: {} for name in called.values()}
    trunks = []
    for switch, other, description in ports:
        if other in called:
            trunks.append((called[switch], called[other]))
        elif other.startswith("H-") and not description.startswith("Mellanox Technologies Aggr"):
            node = short_name(description.split()[0]) if description.split() else other
            switches[called[switch]].setdefault(node)
    return Fabric(switches, trunks)
