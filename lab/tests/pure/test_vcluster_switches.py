"""Two emulated switches: what `vcluster up --switches 2` makes of its options."""

import importlib
import re
import sys

import pytest
from shell import ROOT

from assay.fleet.topology import sources

MODULES = sorted(path.stem for path in (ROOT / "lab/vcluster").glob("*.py"))


@pytest.fixture
def vcluster(monkeypatch, tmp_path):
    """Imports a module of vcluster/, whose state is below a temporary directory."""
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path / "two"))
    monkeypatch.syspath_prepend(str(ROOT / "lab/vcluster"))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "two/etc").mkdir(parents=True)
    (tmp_path / "two/run").mkdir()
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def cluster(vcluster, switches=2, nodes=8, **kind):
    layout = vcluster("layout")
    return layout.Cluster(
        nodes, "assay", 2000, 2000, False, layout.Link(), [], switches=switches, **kind
    )


def typed(vcluster, monkeypatch):
    words = []
    monkeypatch.setattr(
        vcluster("network"), "run", lambda *said, **_: words.append(" ".join(map(str, said)))
    )
    return words


@pytest.mark.parametrize(
    "kind,said",
    [
        ({"nodes": 5}, "two switches need an even number of nodes, at least 4, not 5"),
        ({"nodes": 2}, "at least 4, not 2"),
        ({"kernel": "/cache/linux"}, "leave out --groups and --machines"),
    ],
)
def test_a_cluster_that_cannot_have_switches_is_refused(vcluster, kind, said):
    with pytest.raises(vcluster("layout").Refusal, match=said):
        cluster(vcluster, **kind)


def test_groups_and_switches_exclude_each_other(vcluster):
    with pytest.raises(vcluster("layout").Refusal, match="leave out --groups"):
        cluster(vcluster, between=vcluster("layout").Between())


def test_half_of_the_nodes_are_on_each_switch_and_links_are_as_with_one(vcluster, monkeypatch):
    made, words = cluster(vcluster), typed(vcluster, monkeypatch)
    vcluster("network").create(made)
    masters = dict(
        match.groups()
        for line in words
        if (match := re.search(r"link set (\S+) master (\S+) up$", line))
    )
    assert masters == {
        "p-login": "br0",
        **{f"p-node0{k}": "br0" for k in range(1, 5)},
        **{f"p-node0{k}": "br1" for k in range(5, 9)},
        "trunk0": "br0",
        "trunk1": "br1",
    }
    assert not [line for line in words if "tbf" in line]
    assert made.healthy("node01") == made.link


def test_slurm_knows_the_tree_and_the_suite_reads_it(vcluster, tmp_path):
    vcluster("slurm").configure(cluster(vcluster))
    said = (tmp_path / "two/etc/slurm.conf").read_text()
    assert re.search(r"^TopologyPlugin=topology/tree$", said, re.M)
    fabric = sources.of_slurm((tmp_path / "two/etc/topology.conf").read_text())
    assert [fabric.leaf(f"node0{k}") for k in (1, 4, 5, 8)] == ["s1", "s1", "s2", "s2"]
    assert str(fabric.path("node01", "node08").parts[1]) == "trunk s1 - core - s2"
    vcluster("slurm").configure(cluster(vcluster, switches=1))
    assert "Topology" not in (tmp_path / "two/etc/slurm.conf").read_text()
    assert not (tmp_path / "two/etc/topology.conf").exists()


def test_a_slow_trunk_is_limited_at_both_ends_and_clear_takes_the_limit_away(vcluster, monkeypatch):
    words, faults = typed(vcluster, monkeypatch), vcluster("faults")
    faults.trunk(cluster(vcluster), "500mbit")
    assert [re.search(r"dev (\S+) root tbf rate (\S+)", w).groups() for w in words] == [
        ("trunk0", "500mbit"),
        ("trunk1", "500mbit"),
    ]
    words.clear()
    vcluster("network").limit_trunk(None)
    assert [w.split("tc ")[1].split()[2:] for w in words] == [
        ["qdisc", "del", "dev", end, "root"] for end in ("trunk0", "trunk1")
    ]


def test_a_slow_switch_limits_all_of_its_ports_and_no_other(vcluster, monkeypatch):
    faults, network, shaped = vcluster("faults"), vcluster("network"), {}
    monkeypatch.setattr(network, "shape", lambda _, node, link: shaped.update({node: link.rate}))
    monkeypatch.setattr(network, "await_relays", lambda _: None)
    faults.switch(cluster(vcluster), "s2", "700mbit")
    assert shaped == {f"node0{k}": "700mbit" for k in range(5, 9)}


@pytest.mark.parametrize("switches,there", [(1, "only one: up --switches 2"), (2, "s1, s2")])
def test_an_unknown_switch_is_refused_with_those_that_exist(vcluster, switches, there):
    refusal = vcluster("layout").Refusal
    with pytest.raises(refusal, match=f"no switch 's3'; there are {there}"):
        vcluster("faults").switch(cluster(vcluster, switches), "s3", "1gbit")
    with pytest.raises(refusal, match="'fast' is not a rate of tc"):
        vcluster("faults").trunk(cluster(vcluster), "fast")


def test_one_switch_has_no_trunk(vcluster):
    with pytest.raises(vcluster("layout").Refusal, match="start the cluster with: up --switches 2"):
        vcluster("faults").trunk(cluster(vcluster, 1), "500mbit")


def test_the_running_cluster_is_read_back(vcluster):
    made = cluster(vcluster)
    made.save()
    assert vcluster("layout").Cluster.load() == made
