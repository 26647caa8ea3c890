"""Nodes that are virtual machines: two sockets, a network device on each, and which one is near.

One cluster is started for all tests: a node takes a minute to start, and all it does is slow.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from bench import ROOT
from emulated import UNJUDGED, reason_to_skip, up
from test_vcluster import traces


def reason():
    if shutil.which("qemu-system-x86_64") is None:
        return "needs QEMU: lab/vcluster/packages.sh --vm"
    kernel = subprocess.run(
        [ROOT / "lab/vcluster/vm-kernel.sh", "--no-build"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (
        f"needs a kernel for virtual machines: {kernel.stderr.strip()}"
        if kernel.returncode
        else None
    )


WHY = reason_to_skip() or reason()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(WHY is not None, reason=str(WHY))]

#: The sites' settings for a rank that uses one device of a node.
ONE = {"UCX_MAX_RNDV_RAILS": "1", "UCX_NET_DEVICES": "rxe0:1,rxe1:1"}


@pytest.fixture(scope="module")
def cluster():
    with up("--machines", "vm", "--unproven") as made:
        yield made
    assert traces(made.state) == []


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")


def test_each_node_says_on_which_socket_its_devices_are(cluster):
    place = "$(cat /sys/class/net/eth%d/device/../local_cpulist)"
    said = cluster.job(f"echo $(nproc --all) {place % 0} {place % 1} $(uname -r)")
    assert set(said) == {"node01", "node02"}
    for line in said.values():
        processors, first, second, release = line.split()
        assert (processors, first, second) == ("2", "0", "1")
        assert release != os.uname().release


def ranks(cluster):
    """Host -> the processor and the device of each of its two ranks, as pairs in order."""
    look = "echo $(uname -n) $(grep Cpus_allowed_list /proc/self/status) $UCX_NET_DEVICES"
    srun = ["srun", "-N", "2", "-n", "4", "sh", "-c", look]
    found = {}
    for line in cluster("run", "login", "--", *srun, **ONE).stdout.splitlines():
        host, _, processor, device = line.split()
        found.setdefault(host, []).append((processor, device))
    return {host: sorted(of) for host, of in found.items()}


def test_slurm_binds_each_rank_and_gives_it_the_device_of_its_socket(healthy):
    near = [("0", "rxe0:1"), ("1", "rxe1:1")]
    assert ranks(healthy) == {"node01": near, "node02": near}
    healthy("fault", "far-device", "node02")
    assert ranks(healthy) == {"node01": near, "node02": [("0", "rxe1:1"), ("1", "rxe0:1")]}


def test_the_queue_of_the_other_socket_is_slow(healthy):
    def slow(device):
        said = healthy("run", "--root", "node01", "--", "tc", "qdisc", "show", "dev", device)
        return [line.split("parent ")[1].split()[0] for line in said.stdout.splitlines()
                if line.startswith("qdisc netem")]  # fmt: skip

    assert (slow("eth0"), slow("eth1")) == (["1:2"], ["1:1"])
    healthy("fault", "swap", "node01")
    assert (slow("eth0"), slow("eth1")) == (["1:1"], ["1:2"])


def test_a_fault_of_other_nodes_is_refused(cluster):
    done = cluster("fault", "gpu", "node01", "ipc-open", check=False)
    assert done.returncode == 1 and "a node of --machines vm can have" in done.stderr


OSU = shutil.which("osu_mbw_mr")


@pytest.mark.skipif(OSU is None, reason="needs osu_mbw_mr on this machine")
def test_a_far_device_is_named(healthy):
    def suite(results):
        site = {"site": "vcluster-vm", "mode": "paper-smoke"}
        study = ("-c", str(ROOT / "studies/doc004"))
        _, found = healthy.suite("NearestDevice", *study, *UNJUDGED, results=results, **site)
        return {case: reason for case, (result, reason) in found.items() if result != "pass"}

    results = healthy.state / "home" / "results"
    assert suite(results) == {}
    healthy("fault", "far-device", "node02")
    ((_, said),) = suite(results).items()
    assert "ranks on node02 near rxe0:1 (processors 0) whose lanes to other ranks are all" in said
    assert "node01" not in said.split("whose lanes")[0].rpartition("ranks on")[2]


def emulators(state):
    """Processes of the host that emulate nodes of this cluster."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(b"qemu-system-x86_64") and f"ASSAY_VCLUSTER={state} ".encode() in words:
            found.append(int(process.name))
    return found


def test_a_node_whose_emulator_died_is_crashed(cluster):
    # The last test: the node stays down.
    first = min(emulators(cluster.state))
    os.kill(first, 9)
    while "crashed" not in cluster.states().values():
        pass
