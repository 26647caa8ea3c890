"""Two groups of emulated nodes: what `vcluster up --groups 2` makes of its options."""

import importlib
import re
import sys

import emulation
import pytest
from shell import ROOT

from assay.prove import groups

MODULES = sorted(path.stem for path in (ROOT / "lab/vcluster").glob("*.py"))


@pytest.fixture
def vcluster(monkeypatch, tmp_path):
    """Imports a module of lab/vcluster/, whose state is below a temporary directory."""
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path / "two"))
    monkeypatch.syspath_prepend(str(ROOT / "lab/vcluster"))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def cluster(vcluster, between="delay=145us,rate=200mbit", nodes=4, **kind):
    layout = vcluster("layout")
    made = None if between is None else layout.Between.parse(between)
    return layout.Cluster(
        nodes, "assay", 2000, 2000, False, layout.Link(), [], between=made, **kind
    )


@pytest.mark.parametrize(
    "text,rate,delay,bandwidth",
    [
        ("", "500mbit", 145, 62.5),
        ("delay=1000us", "500mbit", 1000, 62.5),
        ("rate=2gbit,delay=0us", "2gbit", 0, 250),
    ],
)
def test_each_part_of_the_option_may_be_left_out(vcluster, text, rate, delay, bandwidth):
    between = vcluster("layout").Between.parse(text)
    assert (between.rate, between.delay, between.bandwidth) == (rate, delay, bandwidth)


@pytest.mark.parametrize(
    "text,said",
    [
        ("delay=145", "--between 'delay=145': write it like delay=145us,rate=500mbit"),
        ("delay=145us,loss=1", "write it like delay=145us,rate=500mbit"),
        ("rate=fast", "'fast' is not a rate of tc; write it like 900mbit"),
        ("rate=0mbit", "'0mbit' is not a rate of tc"),
    ],
)
def test_a_wrong_option_is_one_line_that_shows_a_right_one(vcluster, text, said):
    layout = vcluster("layout")
    with pytest.raises(layout.Refusal, match=re.escape(said)):
        layout.Between.parse(text)


@pytest.mark.parametrize(
    "kind,said",
    [
        ({"nodes": 5}, "two groups need an even number of nodes, at least 4, not 5"),
        ({"nodes": 2}, "at least 4, not 2"),
        ({"kernel": "/cache/linux"}, "groups are for nodes that are namespaces"),
    ],
)
def test_a_cluster_that_cannot_have_groups_is_refused(vcluster, kind, said):
    with pytest.raises(vcluster("layout").Refusal, match=said):
        cluster(vcluster, **kind)


def test_rates_of_tc_in_megabytes(vcluster):
    megabytes = vcluster("layout").megabytes
    assert [megabytes(rate) for rate in ("1gbit", "200mbit", "1.5mbps", "800kbit")] == [
        125, 25, 1.5, 0.1,
    ]  # fmt: skip


def test_half_of_the_nodes_are_in_each_group_and_slurm_knows_it(vcluster, tmp_path):
    made = cluster(vcluster)
    assert [made.group(name) for name in made.names] == [0, 0, 0, 1, 1]
    (tmp_path / "two/etc").mkdir(parents=True)
    vcluster("slurm").configure(made)
    slurm = (tmp_path / "two/etc/slurm.conf").read_text()
    found = re.findall(r"^NodeName=(\S+) .* Feature=(\S+)$", slurm, re.M)
    assert found == [("node01", "east"), ("node02", "east"), ("node03", "west"), ("node04", "west")]
    vcluster("slurm").configure(cluster(vcluster, between=None))
    assert "Feature" not in (tmp_path / "two/etc/slurm.conf").read_text()


def test_a_node_holds_what_comes_from_the_other_group_longer_in_one_relay(vcluster):
    made, network = cluster(vcluster), vcluster("network")
    assert made.healthy("node01").peers == {"node03": 245, "node04": 245}
    assert made.healthy("node04").peers == {"node01": 245, "node02": 245}
    rules, delays = network._rules(made, "node01", made.healthy("node01"))
    assert delays == [245, 100]
    queues = dict(
        re.findall(r"-A INPUT (-s \S+|-i eth0) -j NFQUEUE --queue-num (\d)", "\n".join(rules))
    )
    assert queues == {
        f"-s {made.address('node03')}": "1",
        f"-s {made.address('node04')}": "1",
        "-i eth0": "2",
    }
    one = cluster(vcluster, between=None)
    assert one.healthy("node01") == one.link


def commands(vcluster, monkeypatch, made):
    """What `up` would type to make the network."""
    network, typed = vcluster("network"), []
    monkeypatch.setattr(network, "run", lambda *words, **_: typed.append(" ".join(map(str, words))))
    network.create(made)
    return typed


def test_both_groups_have_a_bridge_and_share_one_shaped_link(vcluster, monkeypatch):
    typed = commands(vcluster, monkeypatch, cluster(vcluster))
    switch = f"ip -n {vcluster('layout').SWITCH} link"
    masters = dict(
        match.groups()
        for line in typed
        if (match := re.search(r"link set (\S+) master (\S+) up$", line))
    )
    assert masters == {
        "trunk0": "br0", "p-login": "br0", "p-node01": "br0", "p-node02": "br0",
        "trunk1": "br1", "p-node03": "br1", "p-node04": "br1",
    }  # fmt: skip
    assert typed.count(f"{switch} add trunk0 type veth peer name trunk1") == 1
    shaped = [line for line in typed if line.startswith("tc ")]
    assert [re.search(r"dev (\S+) root tbf rate (\S+)", line).groups() for line in shaped] == [
        ("trunk0", "200mbit"), ("trunk1", "200mbit"),
    ]  # fmt: skip
    bucket = f"burst {(256 << 10) // 5} limit {512 << 10}"
    assert all(line.endswith(bucket) for line in shaped), "20 ms, and the bucket of 1 Gbit/s"


def test_one_group_has_the_network_that_it_always_had(vcluster, monkeypatch):
    typed = commands(vcluster, monkeypatch, cluster(vcluster, between=None))
    assert not [line for line in typed if re.search(r"trunk|br1|tbf", line)]
    assert sum(line.endswith("master br0 up") for line in typed) == 5


def test_a_delay_between_two_nodes_adds_to_that_of_the_link_between_the_groups(
    vcluster, monkeypatch
):
    faults, made, changes = vcluster("faults"), cluster(vcluster), []
    monkeypatch.setattr(faults, "_change", lambda *_, **change: changes.append(change))
    faults.delay(made, "node01", "50", "node03")
    faults.delay(made, "node01", "50", "node02")
    faults.delay(made, "node01", "50")
    assert changes == [
        {"peers": {"node03": 295}},
        {"peers": {"node02": 150}},
        {"delay": 150, "peers": {"node03": 295, "node04": 295}},
    ]


def test_the_running_cluster_is_read_back(vcluster, tmp_path):
    (tmp_path / "two").mkdir()
    made = cluster(vcluster)
    made.save()
    assert vcluster("layout").Cluster.load() == made


def test_the_site_says_what_the_link_between_the_groups_is(vcluster, tmp_path, monkeypatch):
    (tmp_path / "two").mkdir()
    cluster(vcluster).save()
    said = groups.parse_groups(emulation.between(emulation.cluster()))
    assert said.groups == {"east": ("node01", "node02"), "west": ("node03", "node04")}
    assert (said.bandwidth, said.latency) == (25, 245)
    cluster(vcluster, between=None).save()
    assert emulation.between(emulation.cluster()) == {}
