"""Nodes that have a kernel of their own: what `vcluster up --machines uml` writes and refuses."""

import importlib
import ipaddress
import os
import re
import sys
from types import SimpleNamespace

import pytest
from shell import ROOT

MODULES = sorted(path.stem for path in (ROOT / "lab/vcluster").glob("*.py"))


@pytest.fixture
def vcluster(monkeypatch, tmp_path):
    """Imports a module of vcluster/, whose state is below a temporary directory."""
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "lab/vcluster"))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def cluster(vcluster, kernel="/cache/linux", nodes=2, rails=1, cores=1):
    layout = vcluster("layout")
    return layout.Cluster(
        *(nodes, "assay", 2000, 2000, False, layout.Link(), []),
        kernel=kernel,
        machines="uml" if kernel else "namespace",
        rails=rails,
        cores=cores,
    )


def configured(vcluster, tmp_path, kernel, cores=1):
    (tmp_path / "etc").mkdir()
    vcluster("slurm").configure(cluster(vcluster, kernel, cores=cores))
    return [(tmp_path / "etc" / name).read_text() for name in ("slurm.conf", "cgroup.conf")]


def test_slurm_knows_one_core_and_limits_the_memory_of_jobs(vcluster, tmp_path):
    slurm, cgroup = configured(vcluster, tmp_path, "/cache/linux")
    nodes = re.findall(r"^NodeName=(\S+) .*CPUs=(\d+) .*RealMemory=(\d+)$", slurm, re.M)
    assert nodes == [("node01", "1", "640"), ("node02", "1", "640")]
    assert vcluster("uml").STATED_MIB < vcluster("uml").MEMORY_MIB
    lines = slurm.splitlines()
    assert "ProctrackType=proctrack/cgroup" in lines and "TaskPlugin=task/cgroup" in lines
    assert "PropagateResourceLimitsExcept=MEMLOCK" in lines
    assert cgroup == "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainRAMSpace=yes\n"
    assert "@" not in slurm


def test_nodes_that_are_namespaces_stay_as_they_were(vcluster, tmp_path):
    slurm, cgroup = configured(vcluster, tmp_path, "")
    lines = slurm.splitlines()
    assert "ProctrackType=proctrack/linuxproc" in lines and "TaskPlugin=task/none" in lines
    assert "MEMLOCK" not in slurm and "Constrain" not in cgroup


@pytest.mark.parametrize(("cores", "stated"), [(1, "2"), (2, "2"), (4, "4")])
def test_a_node_may_state_more_cores_than_the_host_has(
    vcluster, tmp_path, monkeypatch, cores, stated
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    slurm, _ = configured(vcluster, tmp_path, "", cores)
    assert set(re.findall(r" CPUs=(\d+) .*CoresPerSocket=(\d+) ", slurm)) == {(stated, stated)}
    # Without this, Slurm drains such a node. With it, Slurm would not see a node that lost a core.
    assert ("SlurmdParameters=config_overrides" in slurm.splitlines()) == (cores > 2)


def test_cores_are_for_nodes_that_are_namespaces(vcluster):
    with pytest.raises(vcluster("layout").Refusal, match=r"^--cores is for nodes .*leave it out$"):
        cluster(vcluster, cores=2)


@pytest.mark.parametrize("number", [1, 2, 255, 256, 300])
def test_a_node_has_the_address_that_linux_derives_from_its_mac(vcluster, number):
    """RFC 4291, appendix A: the first octet with bit 1 inverted, ff:fe in the middle."""
    agent = vcluster("agent")
    octets = bytes.fromhex(agent.mac_address(number).replace(":", ""))
    derived = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    address = ipaddress.IPv6Address(agent.node_address(number))
    assert address.packed == bytes.fromhex("fe80") + bytes(6) + derived
    assert not octets[0] & 1, "not a group address"
    hosts = {agent.host_address(each) for each in range(1, 400)}
    assert address.compressed not in hosts and len(hosts) == 399


def test_packets_of_both_versions_of_ip_are_delayed_and_lost_behind_the_bridge(vcluster):
    network, link = vcluster("network"), vcluster("layout").Link
    broken = link(loss=0.01, delay=100, peers={"node01": 500})
    rules, delays = network._rules(cluster(vcluster), "node02", broken)
    assert delays == [500, 100]
    # The same rules are for iptables and ip6tables, so none may name an address.
    assert not [rule for rule in rules if re.search(r" -[sd] ", rule)]
    losses = [rule for rule in rules if rule.endswith("-j DROP")]
    assert ["-p tcp" in rule or "-p udp --dport 4791" in rule for rule in losses] == [True, True]
    mac = vcluster("agent").mac_address(1)
    assert [mac in rule for rule in rules if "NFQUEUE" in rule] == [True, False]
    assert all("--physdev-in eth0" in rule for rule in rules if rule.startswith("-A"))


def test_rules_of_a_namespace_stay_as_they_were(vcluster):
    network, link = vcluster("network"), vcluster("layout").Link
    broken = link(loss=0.01, delay=100, peers={"node01": 500})
    assert network._rules(cluster(vcluster, kernel=""), "node02", broken) == (
        [
            "*filter",
            ":INPUT ACCEPT [0:0]",
            "-A INPUT -i eth0 -p tcp -m statistic --mode random --probability 0.01 -j DROP",
            "-A INPUT -s 10.77.0.2 -j NFQUEUE --queue-num 1 --queue-bypass",
            "-A INPUT -i eth0 -j NFQUEUE --queue-num 2 --queue-bypass",
        ],
        [500, 100],
    )


def test_the_kernel_gets_the_files_of_the_host_and_the_card_of_the_node(vcluster, tmp_path):
    words = vcluster("uml").arguments(cluster(vcluster), "node02")
    assert words[0] == "/cache/linux"
    assert {"rootfstype=hostfs", "rootflags=/", f"ASSAY_VCLUSTER={tmp_path}"} <= {*words}
    mac = vcluster("agent").mac_address(2)
    assert [word for word in words if f"ifname=tap0,mac={mac}" in word]
    init = words.index("--")
    assert words[init - 1] == f"init={sys.executable}"
    assert words[init + 1 :] == [str(ROOT / "lab/vcluster/kernel_init.py"), "node02"]


def test_each_rail_has_a_card_and_addresses_of_its_own(vcluster):
    made, agent = cluster(vcluster, rails=2), vcluster("agent")
    cards = [word for word in vcluster("uml").arguments(made, "node02") if word.startswith("vec")]
    macs = [agent.mac_address(2, rail) for rail in (0, 1)]
    assert len({*macs, agent.mac_address(1)}) == 3
    assert [word.split(",")[1:3] for word in cards] == [
        [f"ifname=tap{rail}", f"mac={mac}"] for rail, mac in enumerate(macs)
    ]
    addresses = {made.address(name, rail) for name in made.names for rail in (0, 1)}
    assert len(addresses) == 2 * len(made.names)
    assert len({vcluster("layout").port(name, rail) for name in made.names for rail in (0, 1)}) == 6


def test_rails_are_for_nodes_with_a_kernel(vcluster):
    with pytest.raises(vcluster("layout").Refusal, match=r"add --machines uml$"):
        cluster(vcluster, kernel="", rails=2)


@pytest.mark.parametrize("words", [("rail-down",), ("rail-rate", "40mbit")])
def test_a_fault_of_the_second_rail_needs_two(vcluster, words):
    faults, (name, *more) = vcluster("faults"), words
    with pytest.raises(vcluster("layout").Refusal, match=r"--machines uml --rails 2$"):
        faults.inject(cluster(vcluster), name, ["node01", *more])
    with pytest.raises(vcluster("layout").Refusal, match=f"^{name} is for nodes with verbs"):
        faults.inject(cluster(vcluster, kernel=""), name, ["node01", *more])
    assert not faults.RECORD.exists()


def test_the_login_machine_has_no_kernel_of_its_own(vcluster):
    made = cluster(vcluster)
    assert [made.has_kernel(name) for name in made.names] == [False, True, True]
    assert not cluster(vcluster, kernel="").has_kernel("node01")


@pytest.mark.parametrize("name", ["disk", "disk-full", "memory", "one-core", "drift"])
def test_a_fault_that_such_a_node_cannot_have_is_one_clear_line(vcluster, name):
    faults = vcluster("faults")
    with pytest.raises(vcluster("layout").Refusal, match=f"^{name} is for nodes that are namesp"):
        faults.inject(cluster(vcluster), name, ["node01"])
    assert set(faults.FAULTS) >= faults.WITH_KERNEL | faults.OF_VERBS
    assert not faults.RECORD.exists()


def test_no_option_of_the_kernel_is_there_twice():
    options = re.findall(r"^CONFIG_\w+", (ROOT / "lab/vcluster/uml.config").read_text(), re.M)
    assert len(options) > 50 and len(options) == len(set(options))
    wanted = {"HOSTFS", "UML_NET_VECTOR", "RDMA_RXE", "MEMCG", "NET_SCH_NETEM"}
    assert {f"CONFIG_{word}" for word in wanted} <= {*options}


def test_clusters_whose_directories_share_the_last_part_have_different_names(vcluster, tmp_path):
    layout = vcluster("layout")
    one, two = (layout.name_of(tmp_path / part / "state") for part in ("a", "b"))
    assert one != two
    assert one.startswith("state-")
    # The namespaces of a cluster are found by its name and a dot.
    assert "." not in one
    assert layout.name_of(layout.USUAL) == "assay-vcluster"


def test_a_packet_that_wakes_a_node_is_an_answer_for_nobody(modules):
    wake = modules("wake")
    frame = wake.packet("02:a5:00:00:00:01")
    target, sender, kind, arp = frame[:6], frame[6:12], frame[12:14], frame[14:]
    assert (target.hex(), sender, kind.hex()) == ("02a500000001", wake.NOBODY, "0806")
    # Ethernet and IPv4, an answer, and no IPv4 address: no neighbour is learnt from it.
    assert (arp[:8].hex(), arp[14:18], arp[24:]) == ("0001080006040002", bytes(4), bytes(4))
    assert wake.PAUSE_S <= 0.01


@pytest.mark.parametrize("kernel", ["", "/cache/linux"])
@pytest.mark.parametrize("name", ["far-device", "swap"])
def test_a_fault_of_sockets_needs_virtual_machines(vcluster, name, kernel):
    faults = vcluster("faults")
    with pytest.raises(vcluster("layout").Refusal, match=r"two sockets.*--machines vm$"):
        faults.inject(cluster(vcluster, kernel=kernel), name, ["node01"])
    assert not faults.RECORD.exists()


#: Tells the times that it was given, one after the other, and writes down by how much it is told to
#: move [ns].
LATE = """
import sys
file, *times = sys.argv[1:]
for line in sys.stdin:
    if line.strip():
        open(file, "w").write(line)
    else:
        print(times.pop(0), flush=True)
"""


def test_a_node_whose_clock_is_late_is_told_by_how_much(vcluster, monkeypatch, tmp_path):
    """The fastest answer counts, and the node told its time half-way between question and answer.

    Question n takes 1000 + 100 n ns, except that the fourth takes 10 ns. The times are made: how
    fast this machine answers does not count.
    """
    clock, told = vcluster("clock"), tmp_path / "told"
    late, took = 3600 * 10**9, [1000 + 100 * n for n in range(clock.ROUNDS)]
    took[3] = 10
    begins = [10**18 + 10**6 * n for n in range(clock.ROUNDS)]
    here = [at for begin, wait in zip(begins, took) for at in (begin, begin + wait)]
    # A slow answer is told late, which would make the node seem less late than it is.
    there = [begin + wait - late for begin, wait in zip(begins, took)]
    there[3] = begins[3] + 5 - late
    node = [sys.executable, "-c", LATE, str(told), *map(str, there)]
    monkeypatch.setattr(vcluster("agent"), "client", lambda *_: node)
    monkeypatch.setattr(clock, "time", SimpleNamespace(time_ns=iter(here).__next__))
    clock.match(1, "node01")
    assert int(told.read_text()) == late


def test_a_node_that_does_not_tell_its_time_is_refused(vcluster, monkeypatch):
    clock = vcluster("clock")
    node = [sys.executable, "-c", "input()"]  # it takes the question and ends
    monkeypatch.setattr(vcluster("agent"), "client", lambda *_: node)
    with pytest.raises(vcluster("layout").Refusal, match="node01 does not tell its time; see the"):
        clock.match(1, "node01")
