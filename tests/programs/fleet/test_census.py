import copy

import pytest

from assay.fleet import census
from assay.fleet.node import provenance

NAMES = ["node01", "node02", "node03", "node04"]


@pytest.fixture(scope="module")
def here():
    """The description of this machine. Every node of the cluster is a copy of it."""
    return provenance.collect(["."])


@pytest.fixture
def nodes(here):
    return {name: copy.deepcopy(here) for name in NAMES}


def test_copies_of_one_machine_do_not_differ(nodes):
    assert census.differences(nodes) == []


def test_what_is_natural_is_not_reported(nodes):
    nodes["node02"]["host"] = "another"
    nodes["node02"]["cpu"]["load_1min"] += 5
    nodes["node02"]["memory"]["MemAvailable"] //= 2
    nodes["node02"]["variables"]["PMIX_RANK"] = "1"
    nodes["node02"]["memory"]["MemTotal"] = int(nodes["node01"]["memory"]["MemTotal"] * 0.995)
    nodes["node02"]["memory"]["limit"] = int(nodes["node01"]["memory"]["limit"] * 0.995)
    assert census.differences(nodes) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("kernel",), "5.0.0-old", "node03: kernel is 5.0.0-old, "),
        (("cpu", "microcode"), "0xold", "node03: cpu.microcode is 0xold, "),
        (("cpu", "online"), 1000, "node03: cpu.online is 1000, "),
        (("ptrace_scope",), "7", "node03: ptrace_scope is 7, "),
        (("transparent_huge_pages",), None, "node03: transparent_huge_pages is absent, "),
        (("network", "interfaces", "lo", "mtu"), "1400", "interfaces lo mtu is 1400, "),
        (("packages", "sha256"), "0" * 64, "node03: packages sha256 is 0000"),
        (("mounts", "/data"), "xfs rw,sync", "mounts /data is xfs rw,sync, absent on 3 others"),
        (("programs", "ucx"), "Version 1.2.3\nmore", "programs ucx is Version 1.2.3, "),
        (("memory", "MemTotal"), 2**20, "node03: memory is 1.049 MB, "),
        (("memory", "limit"), 2**20, "node03: memory left to a process is 1.049 MB, "),
        (("hosts_sha256",), "f" * 64, "node03: hosts_sha256 is ffff"),
    ],
)
def test_the_node_that_differs_is_named_with_both_values(nodes, path, value, said):
    if path[0] == "packages" and not nodes["node01"]["packages"]:
        pytest.skip("needs dpkg or rpm")
    place = nodes["node03"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (problem,) = census.differences(nodes)
    assert said in problem


def test_a_mount_that_one_node_lacks(nodes):
    for name in NAMES:
        nodes[name]["mounts"]["/scratch"] = "xfs rw"
    del nodes["node04"]["mounts"]["/scratch"]
    assert census.differences(nodes) == ["node04: mounts /scratch is absent, xfs rw on 3 others"]


def test_of_long_values_what_differs_is_shown(nodes):
    options = "xfs attr2,inode64,logbsize=32k,logbufs=8,nodev,noquota,nosuid,relatime,rw"
    for name in NAMES:
        nodes[name]["mounts"]["/scratch"] = options
    nodes["node04"]["mounts"]["/scratch"] = options.replace("relatime", "relatime,sync")
    assert census.differences(nodes) == [
        "node04: mounts /scratch is with sync, without sync on 3 others"
    ]


def test_without_a_majority_nobody_is_accused(nodes):
    for name in ("node01", "node02"):
        nodes[name]["kernel"] = "6.0"
    for name in ("node03", "node04"):
        nodes[name]["kernel"] = "6.1"
    assert census.differences(nodes) == [
        "kernel: nodes disagree, and none is in the majority: "
        "node01, node02: 6.0; node03, node04: 6.1"
    ]


def test_many_that_differ_are_counted(here):
    nodes = {f"n{i}": copy.deepcopy(here) for i in range(20)}
    for i in range(6):
        nodes[f"n{i}"]["kernel"] = "old"
    (problem,) = census.differences(nodes)
    assert problem.startswith("n0, n1, n2, n3 and 2 more: kernel is old, ")
    assert problem.endswith(" on 14 others")


def test_clocks_are_compared_with_the_median_not_with_the_node_that_asked():
    ahead = {"a": 0.0, "b": 3.0, "c": 3.001, "d": 2.999}
    within = dict.fromkeys(ahead, 0.001)
    assert census.clocks(ahead, within) == ["a: its clock is 3 s behind the median of all"]
    # A clock that was asked slowly is not accused.
    assert census.clocks({"a": 0.0, "b": 0.0, "c": 0.5}, {"a": 0.01, "b": 0.01, "c": 0.45}) == []
    assert census.clocks({}, {}) == []


def test_options_of_a_mount_that_name_the_node_are_left_out(monkeypatch):
    table = (
        "server:/home /home nfs4 rw,clientaddr=10.0.0.7,hard,addr=10.0.0.1 0 0\n"
        "proc /proc proc rw 0 0\n"
        "/dev/sda1 /with\\040blank xfs noatime,rw 0 0\n"
        "tmpfs /run/user/1000 tmpfs rw 0 0\n"
    )
    monkeypatch.setattr(provenance, "read", lambda path: table)
    assert provenance.mounts() == {"/home": "nfs4 hard,rw", "/with blank": "xfs noatime,rw"}


def test_packages_are_one_hash_whatever_the_order(monkeypatch):
    listings = iter(["b 2\na 1", "a 1\nb 2", "a 1\nb 3"])
    monkeypatch.setattr(provenance, "output", lambda command, lines: next(listings))
    first, second, third = provenance.packages(), provenance.packages(), provenance.packages()
    assert first == second
    assert first["count"] == 2
    assert third["sha256"] != first["sha256"]
