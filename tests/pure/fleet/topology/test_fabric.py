"""The topology of a network: where it comes from, and what a path crosses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.fleet.topology import sources
from assay.fleet.topology.fabric import Fabric

DATA = Path(__file__).parents[3] / "data" / "topology"


def read(name):
    return sources.read_topology(name, DATA)


def parts(fabric, a, b):
    return [str(part) for part in fabric.path(a, b).parts]


def test_the_tree_of_slurm():
    fabric = read("scontrol.txt")
    assert fabric.leaf("node04") == "leaf1"
    assert fabric.leaf("node05") == "leaf2"
    assert parts(fabric, "node01", "node04") == ["switch leaf1"]
    assert parts(fabric, "node09", "node01") == [
        "switch leaf1",
        "trunk leaf1 - spine",
        "switch spine",
        "trunk leaf3 - spine",
        "switch leaf3",
        "all paths over 2 trunks",
    ]
    assert [fabric.hops("node01", b) for b in ("node02", "node05", "node12")] == [0, 2, 2]


def test_a_switch_above_others_may_have_nodes_of_its_own():
    text = (DATA / "scontrol.txt").read_text().replace("node[01-12] S", "node[01-12],login1 S")
    fabric = sources.of_slurm(text)
    assert fabric.leaf("login1") == "spine"
    assert fabric.leaf("node01") == "leaf1"


YAML = """\
---
- topology: racks
  tree:
    switches:
      - switch: only
        nodes: node[01-12]
- topology: flat
  flat: true
- topology: cables
  cluster_default: true
  tree:
    switches:
      - switch: spine
        children: leaf[1-2]
      - switch: leaf1
        nodes: node[01-04]
      - switch: leaf2
        nodes: node[05-08],node10.example.org
"""


def test_the_default_tree_of_a_topology_in_yaml(tmp_path):
    (tmp_path / "topology.yaml").write_text(YAML)
    fabric = sources.read_topology("topology.yaml", tmp_path)
    assert [fabric.leaf(node) for node in ("node04", "node05", "node10")] == [
        "leaf1", "leaf2", "leaf2"
    ]  # fmt: skip
    assert fabric.hops("node01", "node05") == 2
    first = sources.parse_topology(YAML.replace("cluster_default: true", "cluster_default: false"))
    assert first.leaf("node05") == "only"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- topology: a\n  flat: true\n", "no topology of it is a tree"),
        ("- topology: a\n  tree:\n    switches: []\n", "it names no switch"),
        ("- topology: a\n  tree:\n    switches: [{switch: s}]\n", "line 1: no switch with nodes"),
        (
            "- topology: a\n  tree: {switches: [{nodes: n1}]}\n",
            "form of Slurm's topology.yaml: 'switch'",
        ),
        ("- topology: [a\n", "form of Slurm's topology.yaml: while parsing"),
        ("- topology: a\n- b\n", "form of Slurm's topology.yaml: 'str' object"),
    ],
)
def test_a_topology_in_yaml_that_cannot_be_used_is_one_line(text, why, tmp_path):
    (tmp_path / "topology.yaml").write_text(text)
    with pytest.raises(ValueError, match=re.escape(why)) as refused:
        sources.read_topology("topology.yaml", tmp_path)
    assert "\n" not in str(refused.value)


def test_the_cables_of_ibnetdiscover():
    fabric = read("ibnetdiscover.txt")
    leaf = "MF0;leaf1:MSB7800/U1"
    assert fabric.leaf("node04") == leaf
    # Two spines: routing chooses one of them, so only the uplinks of the leaves are on all paths.
    assert parts(fabric, "node01", "node05") == [
        f"switch {leaf}",
        f"uplinks of {leaf}",
        f"uplinks of {leaf.replace('1:', '2:')}",
        f"switch {leaf.replace('1:', '2:')}",
        "all paths over 2 trunks",
    ]
    assert fabric.lacking(["node12", "Mellanox"]) == ["Mellanox"]


def test_switches_of_one_name_are_told_apart_by_their_guids():
    text = (DATA / "ibnetdiscover.txt").read_text().replace("leaf2:MSB", "leaf1:MSB")
    fabric = sources.parse_topology(text)
    assert fabric.leaf("node01") == "S-000000000000a001"
    assert fabric.leaf("node05") == "S-000000000000a002"


def test_the_file_of_a_site():
    fabric = read("topology.conf")
    assert parts(fabric, "node08", "node01") == [
        "switch leaf1",
        "trunk leaf1 - leaf2",
        "switch leaf2",
        "all paths over 1 trunk",
    ]


def test_a_switch_that_only_passes_messages_on_is_a_piece_of_its_trunk():
    fabric = Fabric(
        {"s1": ["a", "b"], "s2": ["c", "d"], "core": []}, [("s1", "core"), ("core", "s2")]
    )
    assert parts(fabric, "a", "c")[1] == "trunk s1 - core - s2"


def test_a_network_goes_through_json_unchanged():
    for name in ("scontrol.txt", "ibnetdiscover.txt", "topology.conf"):
        fabric = read(name)
        again = Fabric(**fabric.said())
        assert again.said() == fabric.said()
        assert parts(again, "node01", "node08") == parts(fabric, "node01", "node08")


def test_places_of_nodes_switch_by_switch():
    nodes = ["node05", "node01", "node02", "node06"]
    assert read("topology.conf").leaves(nodes) == [[1, 2], [0, 3]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it names no switch"),
        ("switches: {a: n1}", "it names no switch"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "n1 is on two switches, a and b"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2", "no trunk leads from a to b"),
        ("SwitchName=a Switches=a", "no switch has a node"),
        ("SwitchName=a Level=0 LinkSpeed=1", "line 1: no switch with nodes: SwitchName=a"),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c",
            "the trunk b - c: there is no switch c",
        ),
    ],
)
def test_a_damaged_source_is_one_line_that_names_it(tmp_path, text, said):
    (tmp_path / "fabric").write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        sources.read_topology("fabric", tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'fabric'}: ")
    assert "\n" not in str(error.value)


def test_slurm_without_a_tree_is_refused():
    with pytest.raises(ValueError, match="it names no switch; Slurm needs the plugin"):
        sources.of_slurm("")
    with pytest.raises(ValueError, match="topology/block has no switches; name a file"):
        sources.of_slurm("BlockName=b1 BlockIndex=0 Nodes=node[01-04] BlockSize=4\n")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere\.conf: No such file"):
        sources.read_topology("nowhere.conf", tmp_path)
