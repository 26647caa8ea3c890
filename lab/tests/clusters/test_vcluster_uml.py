"""Emulated nodes that have a kernel of their own: verbs between them, control groups, faults."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench import ROOT
from emulated import COMMAND, Cluster, cluster_name, place, reason_to_skip, up
from test_vcluster import bandwidth, connection, traces


def reason():
    if shutil.which("pkill") is None:
        return "needs pkill: lab/vcluster/packages.sh --uml"
    if not list(Path("/etc/libibverbs.d").glob("rxe.driver")):
        return "needs the library of soft-RoCE: lab/vcluster/packages.sh --uml"
    kernel = subprocess.run(
        [ROOT / "lab/vcluster/kernel.sh", "--no-build"], capture_output=True, text=True, check=False
    )
    return f"needs a kernel for the nodes: {kernel.stderr.strip()}" if kernel.returncode else None


WHY = reason_to_skip() or reason()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(WHY is not None, reason=str(WHY))]

VERBS = {"UCX_NET_DEVICES": "rxe0:1", "UCX_IB_GID_INDEX": "0"}


@pytest.fixture(scope="module")
def cluster():
    begin = time.monotonic()
    with up("--machines", "uml", "--nodes", "2") as made:
        made.start = time.monotonic() - begin
        yield made


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")
    assert set(cluster.states().values()) == {"idle", "login machine"}


def test_each_node_has_a_kernel_and_an_rdma_device_of_its_own(cluster):
    look = "$(uname -nr) $(cat /sys/class/infiniband/rxe0/ports/1/gids/0) $(nproc) $(whoami)"
    said = cluster.job(f'echo "{look}"')
    assert said["node01"] != said["node02"]
    for host, line in said.items():
        name, release, gid, cores, user = line.split()
        assert (name, cores) == (host, "1") and user != "root"
        assert release.endswith("-assay") and release != os.uname().release
        assert gid.startswith("fe80:")


def behind(cluster, node):
    """How far the clock of a node is behind that of the host, and how wrong this may be [s]."""
    words = [str(COMMAND), "run", node, "--", "python3", str(ROOT / "lab/vcluster/clock.py")]
    with subprocess.Popen(
        words,
        env=cluster.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as asked:

        def once():
            begin = time.time()
            asked.stdin.write("\n")
            said = int(asked.stdout.readline()) / 1e9
            end = time.time()
            return end - begin, (begin + end) / 2 - said

        took, found = min(once() for _ in range(10))
    return found, took / 2


def match(cluster, node):
    """Sets the clock of a node as its start does. Returns how wrong it may be then [s].

    The fastest of its ten answers counts, which took a tenth of the time at most. The clock is
    wrong by half of that at most.
    """
    call = f"import clock; clock.match({int(node.removeprefix('node'))}, {node!r})"
    space = f"{cluster_name(cluster.state)}.{node}"
    begin = time.monotonic()
    subprocess.run(
        ["ip", "netns", "exec", space, sys.executable, "-c", call],
        env={**cluster.environment, "PYTHONPATH": str(ROOT / "lab/vcluster")},
        check=True,
    )
    return (time.monotonic() - begin) / 20


def test_the_clock_of_a_node_is_set_to_that_of_the_host(cluster):
    for node in ("node01", "node02"):
        found, wrong = behind(cluster, node)
        # The start asked ten times, too.
        assert abs(found) <= wrong + cluster.start / 20, node
        cluster("run", "--root", node, "--", "date", "-s", "+60 seconds")
        assert behind(cluster, node)[0] < -30
        wrong = match(cluster, node)
        found, more = behind(cluster, node)
        assert abs(found) <= wrong + more, node


#: The server says in a file that it listens. The client is started once.
LISTENS = """
if [ "$SLURM_PROCID" = 0 ]; then
    ucx_perftest -p 13399 & server=$!
    until grep -q ":$(printf %04X 13399) .* 0A " /proc/net/tcp; do
        kill -0 $server || exit 1
        sleep 0.1
    done
    touch FILE
    wait $server
else
    until [ -e FILE ]; do sleep 0.1; done
    ucx_perftest node01 -p 13399 -t tag_lat -n 200 -w 20
fi
"""


def perftest(cluster, transport, **variables):
    """The output of ucx_perftest between the nodes, one rank on each, by srun."""
    settings = {**VERBS, "UCX_TLS": transport, "UCX_LOG_LEVEL": "info", **variables}
    file = cluster.state / "shared/listens"
    file.unlink(missing_ok=True)
    script = LISTENS.replace("FILE", str(file))
    srun = ["srun", "--kill-on-bad-exit=1", "-w", "node01,node02", "-N", "2", "-n", "2"]
    return cluster("run", "login", "--", *srun, "sh", "-c", script, **settings).stdout


@pytest.mark.parametrize(("tls", "lane"), [("rc_v", "rc_verbs"), ("ud_verbs", "ud_verbs")])
def test_messages_cross_verbs(cluster, tls, lane):
    count = "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"
    before = cluster.job(count)
    said = perftest(cluster, f"{tls},self")
    assert f"tag({lane}/rxe0:1)" in said and "Final:" in said
    after = cluster.job(count)
    for host, packets in after.items():
        assert int(packets) - int(before[host]) > 200


def test_the_kernel_limits_the_memory_that_a_job_asked_for(cluster):
    here = "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup | sed 's,/step_.*,,')"
    look = f"echo $(cat {here}/memory.max) $(cat /sys/fs/cgroup/cgroup.controllers)"
    srun = ["srun", "-w", "node01", "--mem=100", "sh", "-c"]
    limit, *controllers = cluster("run", "login", "--", *srun, look).stdout.split()
    assert int(limit) == 100 << 20
    assert {"cpu", "io", "memory", "pids"} <= {*controllers}
    much = "python3 -c 'print(len(b\"x\" * (300 << 20)))'"
    done = cluster("run", "login", "--", *srun, much, check=False)
    assert done.returncode != 0 and not done.stdout.strip()


def test_run_hands_a_command_on_as_it_is(cluster):
    script = 'printf "%s|" "$@"; cat; echo lost >&2; exit 7'
    words = ["sh", "-c", script, "name", "-n", "a b", "$HOME"]
    done = subprocess.run(
        [str(COMMAND), "run", "node02", "--", *words],
        env=cluster.environment,
        input="given",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("-n|a b|$HOME|given", "lost\n", 7)
    where = cluster("run", "node02", "--", "sh", "-c", "echo $(uname -n) $(pwd) $(id -un)").stdout
    assert where.split()[:2] == ["node02", str(Path.cwd())] and where.split()[2] != "root"
    assert cluster("run", "--root", "node02", "--", "id", "-u").stdout == "0\n"
    missing = cluster("run", "node02", "--", "no-such-program", check=False)
    assert missing.returncode == 127 and "no-such-program" in missing.stderr


def test_a_command_ends_with_its_client(cluster):
    client = subprocess.Popen(
        [str(COMMAND), "run", "node01", "--", "sleep", "4321"], env=cluster.environment
    )
    look = ["pgrep", "-f", "^sleep 4321"]
    while cluster("run", "node01", "--", *look, check=False).returncode:
        assert client.poll() is None
    client.kill()
    client.wait()
    while cluster("run", "node01", "--", *look, check=False).returncode == 0:
        pass


def test_a_job_writes_files_that_all_machines_see_as_the_users(cluster):
    file = cluster.state / "shared/written"
    cluster.job(f"umask 022; [ $SLURM_PROCID = 1 ] || echo $(uname -n) > {file}")
    assert file.read_text() == "node01\n"
    said = cluster.job(f"echo $(cat {file}) $(stat -c %U {file}) $(whoami)")
    for line in said.values():
        words = line.split()
        assert words[0] == "node01" and words[1] == words[2] != "root"


def test_a_slow_link_is_slow(healthy):
    assert [healthy.rate(node) for node in ("node01", "node02")] == [1e9, 1e9]
    healthy("fault", "rate", "node02", "100mbit")
    assert [healthy.rate(node) for node in ("node01", "node02")] == [1e9, 1e8]
    assert bandwidth(healthy) < 12.5


def latency(said):
    """The average of ucx_perftest [us]: half of the time between two messages of one side."""
    return float(re.search(r"^Final: +\d+ +\S+ +(\S+)", said, re.M)[1])


def test_delayed_packets_are_seen_over_verbs(healthy):
    assert healthy.held("node02") == []
    healthy("fault", "delay", "node02", "2000")
    assert healthy.held("node02") == [2000]
    # Each message to node02 is held, and none of those back.
    assert latency(perftest(healthy, "rc_v,self")) >= 1000


def test_lost_packets_are_counted_by_the_rdma_device(healthy):
    count = "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/completer_retry_err"
    healthy("fault", "loss", "node02", "5")
    before = healthy.job(count)
    perftest(healthy, "rc_v,self")
    after = healthy.job(count)
    assert sum(map(int, after.values())) > sum(map(int, before.values()))


def test_a_cable_that_is_out_and_in_again(healthy):
    healthy("fault", "link-down", "node02")
    # Nothing answers, so it does not matter how long is waited.
    assert re.search("timed out|No route to host", connection(healthy, seconds=1))
    assert healthy("run", "node02", "--", "uname", "-n").stdout == "node02\n"
    healthy("clear")
    assert connection(healthy) == "there"


def test_a_node_without_slurmd_or_drained_comes_back(healthy):
    healthy("fault", "slurmd", "node01")
    again = healthy("fault", "slurmd", "node01", check=False)
    assert again.returncode == 1 and "no slurmd already" in again.stderr
    healthy("fault", "drain", "node02")
    assert healthy.states()["node02"].startswith("drain")


def test_a_crashed_node_ends_its_job_and_comes_back(healthy):
    code, said = healthy.crash_in_a_job()
    assert code != 0 and "node02" in said.lower()
    refused = healthy("run", "node02", "--", "true", check=False)
    assert refused.returncode == 1 and "node02 is down" in refused.stderr


def test_a_hanging_process_is_stopped_until_clear(healthy):
    job = subprocess.Popen(
        [str(COMMAND), "run", "login", "--", "srun", "-w", "node01", "-N1", "sleep", "inf"],
        env=healthy.environment,
    )
    healthy("fault", "hang", "node01", "sleep")
    healthy("run", "node01", "--", "pgrep", "-x", "-r", "T", "sleep")
    assert job.poll() is None
    healthy("clear")
    job.wait()


def test_the_suite_runs_over_verbs(healthy):
    results = healthy.state / "home" / "results"
    tests = "TransportOpens|NodeHealth|Census"
    _, cases = healthy.suite(tests, results=results, site="vcluster-uml")
    # The nodes of both partitions are the same.
    assert cases.pop(("NodeHealth", "verbs"))[0] == "skip"
    assert {case: reason for case, (result, reason) in cases.items() if result != "pass"} == {}
    assert {partition for _, partition in cases} == {"ethernet", "verbs"}


def ports(cluster, node):
    """What `rdma link` says of each device of a node: device -> the rest of its line."""
    said = cluster("run", node, "--", "rdma", "link").stdout
    return dict(re.findall(r"^link (rxe\d)/1 (.*?) *$", said, re.M))


def test_faults_of_two_rails_are_named_by_the_census_and_undone():
    with up("--machines", "uml", "--nodes", "3", "--rails", "2", "--unproven") as made:
        healthy = ports(made, "node02")
        assert healthy == {
            f"rxe{rail}": f"state ACTIVE physical_state LINK_UP netdev eth{rail}" for rail in (0, 1)
        }
        memory = "head -1 /proc/meminfo"
        said = made.job(memory, nodes="node01,node02,node03")
        assert len(set(said.values())) == 1, "the census names a node with another memory"
        made("fault", "rail-down", "node02")
        made("fault", "gid", "node02")
        broken = ports(made, "node02")
        assert broken["rxe1"].startswith("state DOWN") and broken["rxe0"].endswith("netdev lo")
        results = made.state / "home" / "results"
        arguments = ("--system", "vcluster-uml:rails")
        _, cases = made.suite("Census", *arguments, results=results, site="vcluster-uml")
        assert cases["Census", "rails"][0] == "fail"
        # The message names the first few differences. The record has them all.
        found = made.records["Census", "rails"]["problems"]
        assert "node02: network.infiniband rxe1:1 state is 1: DOWN, 4: ACTIVE on 2 others" in found
        made("clear")
        assert ports(made, "node02") == healthy
        _, cases = made.suite("Census", *arguments, results=results, site="vcluster-uml")
        assert cases["Census", "rails"] == ("pass", "")


def kernels(state):
    """Processes of the host that are kernels of this cluster: node -> pid."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"ASSAY_VCLUSTER={state}".encode() in words and words[-2].startswith(b"node"):
            found.setdefault(words[-2].decode(), int(process.name))
    return found


def test_nothing_is_left_after_down_even_of_a_kernel_that_was_killed():
    with up("--machines", "uml", "--nodes", "2", "--unproven") as made:
        assert set(kernels(made.state)) == {"node01", "node02"}
        os.kill(kernels(made.state)["node02"], signal.SIGKILL)
        while made.states()["node02"] != "crashed":
            pass
        made("down")
        assert traces(made.state) == []


def test_the_cluster_is_not_up_without_its_kernel():
    with place() as state:
        alone = state / "checkout/lab/vcluster"  # a checkout without a cache
        shutil.copytree(ROOT / "lab/vcluster", alone)
        done = subprocess.run(
            [alone / "vcluster", "up", "--machines", "uml"],
            env=Cluster(state).environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
        assert "type lab/vcluster/kernel.sh" in done.stderr
        assert traces(state) == []
