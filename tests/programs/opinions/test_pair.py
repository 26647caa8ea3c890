"""perftest between nodes: the real test on programs that move real bytes over lo, with faults."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest
import shell
from nodes import LAUNCHER, UNSHARE, need_namespaces

pytestmark = pytest.mark.slow

FAKE = Path(__file__).parents[1] / "perftest_fake.py"

#: Fault -> the beginning of each cause that must be named.
FAULTS = {
    "none": ("",),
    "device": ("node01 - node02: lo:1 4096 B: client: the device was rxe9, lo was asked for",),
    "fewer": ("client: 50 iterations were run, 100 were asked for",),
    "torn": ("client: the output is incomplete",),
    "no-clock": ("node01 - node02: lo:1 4096 B: client: line 24: bandwidth is 0.00",),
    "no-clock-once": ("",),
    "dead": ("ib_write_bw ended with exit code 1: Completion with error at client",),
}

#: Starts a command in a network of its own, whose `lo` nobody else uses. Its counters are in a
#: sysfs that was mounted there.
APART = """\
import fcntl, os, socket, struct, subprocess, sys
subprocess.run(["mount", "-t", "sysfs", "none", "/sys"], check=True)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    up = struct.pack("16sH14x", b"lo", 1)  # IFF_UP
    fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def verbs(bench):
    """Makes a partition of two "nodes", and a stack with perftest for each fault."""
    need_namespaces()

    def make(program, *faults, launcher=LAUNCHER, **extras):
        extras = {"network_device": "lo:1", "nodes": 2, "health": {"link_resent_max": 1}, **extras}
        bench.partition(features=["inter-node", "rc_verbs"], extras=extras)
        for fault in faults:
            path = bench.program(fault, "mpirun", launcher)
            call = f'exec {sys.executable} -I -S {FAKE} {fault} {program} "$@"'
            bench.program(fault, program, f"#!/bin/sh\n{call}\n")
            bench.stack(fault, ["ib-perftest"], path)
        bench.record_all()
        words = ("-n", f"IbPerftest%program={program}", "--mode", "smoke")
        return bench.run(*words, path="reframe/network/ib_perftest.py")

    return make


#: Those of one kind each: nothing wrong, another device, and a program that ends with an error.
SOME = ("none", "device", "dead")


@pytest.mark.parametrize(
    "faults", [SOME, pytest.param(tuple(FAULTS), marks=pytest.mark.long)], ids=["some", "all"]
)
def test_each_fault_of_a_pair_is_named(verbs, faults):
    run = verbs("ib_write_bw", *faults)
    for fault in faults:
        run.says("IbPerftest", *FAULTS[fault], environ=fault)
    record = run.case("IbPerftest", environ="none").record
    assert record["metrics"]["bandwidth_1MiB"]["value"] == pytest.approx(28.2 * 1.048576)
    assert record["proof"]["worst"] == {
        f"{size} B": "node01 - node02 lo:1" for size in (4096, 65536, 1 << 20)
    }
    assert record["parsed"]["facts"]["validates"] is False


def test_bytes_that_did_not_cross_the_link_are_named(bench, verbs):
    """The counters of a device count for all processes: other traffic would hide the fault."""
    apart = bench.folder / "apart.py"
    apart.write_text(APART)
    words = [*UNSHARE, "--net", "--mount", sys.executable, "-I", "-S", str(apart)]
    if shell.run(*words, shutil.which("true")).returncode:
        pytest.skip("cannot mount here: the sysfs of a network of its own")
    real = shell.program(bench.folder, "launch", LAUNCHER.removeprefix("#!/bin/sh\n"))
    launcher = f'#!/bin/sh\nexec {shlex.join([*words, str(real)])} "$@"\n'
    run = verbs("ib_write_bw", "elsewhere", "none", launcher=launcher)
    for size, sent in ((4096, "409600"), (65536, "6553600"), (1 << 20, "104857600")):
        said = f"node01 - node02: lo:1 {size} B: {sent} B were sent, but the client's network"
        problems = run.case("IbPerftest", environ="elsewhere").record["problems"]
        assert any(problem.startswith(said) for problem in problems), problems
    run.says("IbPerftest", environ="none")


@pytest.mark.long
def test_a_rail_that_is_slower_than_the_others_is_named(verbs):
    run = verbs("ib_write_bw", "slow-rail", "slow-way", "none", nodes=6)
    said = "node03 - node04 over lo:1: 14.78 MB/s, the median of 2 other rails is 29.57 MB/s (-50"
    run.says("IbPerftest", said, environ="slow-rail")
    run.says("IbPerftest", said, environ="slow-way")  # slow in one direction only
    run.says("IbPerftest", environ="none")


def test_latency_by_an_index_of_the_gid(verbs):
    """The recorded programs used GID index 1."""
    run = verbs("ib_send_lat", "none", gid_index=0)
    run.says("IbPerftest", "client: the gid index was 1, 0 was asked for")
