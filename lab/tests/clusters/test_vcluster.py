"""The emulated cluster: it starts, its faults take effect and can be removed, and nothing remains.

Each cluster is named after its temporary directory. A limit is what the kernel was told, and what
no slow host breaks: the limited node is never faster.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from emulated import COMMAND, Cluster, cluster_name, place, reason_to_skip, up

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]


@pytest.fixture
def unborn():
    """A cluster that is not up yet. It is removed after the test."""
    with place() as state:
        made = Cluster(state)
        yield made
        made("down")


@pytest.fixture(scope="module")
def cluster():
    with up("--nodes", "3") as made:
        yield made


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")
    assert set(cluster.states().values()) == {"idle", "login machine"}


def traces(state):
    """All traces of a cluster: processes, namespaces, mounts, groups, loop devices."""
    name = cluster_name(state)
    found = [f"namespace {path}" for path in Path("/run/netns").glob(f"{name}.*")]
    found += [
        f"group {path}" for path in Path("/sys/fs/cgroup").glob(f"**/{name}") if path.is_dir()
    ]
    for file in ("/proc/self/mounts", "/proc/swaps"):
        found += [f"mount {line}" for line in Path(file).read_text().splitlines() if name in line]
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    found += [f"loop device of {text}" for path in backing if name in (text := path.read_text())]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            group = (process / "cgroup").read_text()
        except OSError:
            continue
        if process.name != str(os.getpid()) and (
            f"ASSAY_VCLUSTER={state}".encode() in words or f"/{name}/" in group
        ):
            found.append(f"process {process.name}: {words[:100]!r}")
    return found


def test_the_nodes_are_up_and_nothing_is_left_after_down(unborn):
    cluster = unborn
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    cluster("up", "--nodes", "4")
    assert set(cluster.states()) == {"login", "node01", "node02", "node03", "node04"}
    assert traces(cluster.state), "the traces that are looked for exist while it is up"
    second = cluster("up", check=False)
    assert second.returncode == 1 and "vcluster down" in second.stderr
    cluster("down")
    assert traces(cluster.state) == []
    after = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert after == links, "the host's own network was touched"


def test_a_path_too_long_for_sockets_is_refused(tmp_path):
    deep = Cluster(tmp_path / ("d" * 60))
    done = deep("up", check=False)
    assert done.returncode == 1
    assert "ASSAY_VCLUSTER" in done.stderr and len(done.stderr.splitlines()) == 1
    assert traces(deep.state) == []


def there(pattern):
    """Whether a start made files of this pattern, below its directory or anywhere."""
    return lambda state: any(
        state.glob(pattern)
        if not pattern.startswith("/")
        else Path("/").glob(pattern[1:].format(name=cluster_name(state)))
    )


#: Programs that `up` runs to their end. One that ran when `up` was killed ends by itself.
ENDING = {"gcc", "cc1", "as", "collect2", "ld", "ip", "tc", "nsenter", "unshare", "mkfs.xfs"}


def ends_by_itself(trace):
    words = re.match(r"""process \d+: b['"]([^\\'"]*)""", trace)
    return bool(words) and Path(words[1]).name in {"", *ENDING}


@pytest.mark.parametrize(
    "begun",
    ["cluster.json", "/run/netns/{name}.switch", "/run/netns/{name}.node03", "run/ready.login"],
)
def test_nothing_is_left_of_a_start_that_was_killed(unborn, begun):
    cluster = unborn
    starter = subprocess.Popen(
        [str(COMMAND), "up", "--nodes", "3"],
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not there(begun)(cluster.state):
        assert starter.poll() is None
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    cluster("down")
    while (left := traces(cluster.state)) and all(map(ends_by_itself, left)):
        pass
    assert left == []
    cluster("down")  # a second `down` finds nothing to do


@pytest.mark.skipif(shutil.which("mariadbd") is None, reason="needs MariaDB for accounting")
def test_with_accounting_sacct_knows_how_a_job_ended(unborn):
    unborn("up", "--nodes", "2", "--accounting")
    submit = ["sbatch", "-o", "/dev/null", "--wrap", "exit 3"]
    unborn("run", "login", "--", *submit)
    # The records of a job reach the database one after another, and late.
    ended = "sacct -n -X -P -o state,exitcode | grep FAILED"
    ask = f"until {ended}; do sleep 0.2; done"
    assert unborn("run", "login", "--", "sh", "-c", ask).stdout.split() == ["FAILED|3:0"]


def test_run_hands_a_command_on_as_it_is(cluster):
    words = ["sh", "-c", 'printf "%s|" "$@"', "name", "--", "-n", "a b", "--", "$HOME"]
    assert cluster("run", "login", "--", *words).stdout == "--|-n|a b|--|$HOME|"


def test_jobs_run_as_an_ordinary_user_each_on_a_core_of_its_own(cluster):
    said = cluster.job('echo "$(whoami) $(taskset -pc $$)"')
    users = {line.split()[0] for line in said.values()}
    assert users == {json.loads((cluster.state / "cluster.json").read_text())["user"]} != {"root"}
    if os.cpu_count() > 1:
        assert len({line.split(": ")[1] for line in said.values()}) == len(said)


def test_a_node_has_its_own_network_disk_and_temporary_files(cluster):
    mine, all_see = (
        f"/tmp/$(uname -n) {cluster.state}/scratch/$(uname -n)",
        cluster.state / "shared",
    )
    said = cluster.job(
        f"touch {mine} && touch {all_see}/$(uname -n) && cd {all_see} &&"
        "until [ -e node01 ] && [ -e node02 ]; do sleep 0.1; done;"
        f"echo $(ls /tmp) $(ls {cluster.state}/scratch) $(ls /sys/class/net)"
    )
    for host, line in said.items():
        mine = [word for word in line.split() if word in (*said, "eth0", "lo")]
        assert sorted(mine) == sorted([host, host, "eth0", "lo"]), line


@pytest.mark.parametrize("name", ["login", "node01"])
def test_a_user_may_start_a_container(cluster, name):
    """Apptainer mounts /proc in namespaces that belong to the user."""
    cluster("run", name, "--", "unshare", "-Ur", "--pid", "--fork", "--mount-proc", "true")


def test_a_slow_processor_is_one_nodes_only(healthy):
    healthy("fault", "cpu", "node02", "20")
    shares = [healthy.share_of_a_core(node) for node in ("node01", "node02", "node03")]
    assert shares == [None, 0.2, None]
    loop = "import time as t; b, c = t.time(), t.process_time()\nwhile t.process_time() < c + 0.5: "
    took = healthy.job(f"python3 -c '{loop}pass\nprint(t.time() - b)'")
    # Half a second of processor time takes 2.5 s, but for what is left of the first period.
    assert float(took["node02"]) > 2


def write_rate(cluster):
    """Rate of direct writes to the disk of each node [MB/s]."""
    file = f"{cluster.state}/scratch/file"
    dd = f"dd if=/dev/zero of={file} bs=1M count=32 oflag=direct 2>&1; rm {file}"
    said = cluster.job(f"({dd}) | tail -n 1")
    units = {"kB/s": 1e-3, "MB/s": 1, "GB/s": 1e3}
    return {host: float(line.split()[-2]) * units[line.split()[-1]] for host, line in said.items()}


def test_a_slow_disk_is_one_nodes_only(healthy):
    healthy("fault", "disk", "node02", "20")
    limits = [healthy.disk_limits(node) for node in ("node01", "node02", "node03")]
    assert limits == [[], [20_000_000, 20_000_000], []]
    assert write_rate(healthy)["node02"] < 25


def test_a_full_disk_refuses_writes_and_is_empty_again_after_clear(healthy):
    healthy("fault", "disk-full", "node02")
    write = f"dd if=/dev/zero of={healthy.state}/scratch/file bs=1M count=32 2>&1 | head -n 1"
    said = healthy.job(write)
    assert "No space left" in said["node02"] and "No space left" not in said["node01"]
    healthy.job(f"rm -f {healthy.state}/scratch/file")
    healthy("clear")
    assert "No space left" not in healthy.job(write)["node02"]


def test_memory_runs_out_on_one_node(healthy):
    healthy("fault", "memory", "node02", "200")
    said = healthy.job("python3 -c 'print(len(b\"x\" * (300 << 20)))'", check=False)
    assert set(said) == {"node01"}


@pytest.mark.parametrize(
    ("words", "rate"), [((), 1e9), (("rate", "node02", "500mbit"), 5e8)], ids=["nominal", "half"]
)
def test_a_link_has_its_rate(healthy, words, rate):
    if words:
        healthy("fault", *words)
    assert [healthy.rate(node) for node in ("node01", "node02", "node03")] == [1e9, rate, 1e9]
    assert bandwidth(healthy) < rate / 8e6


def bandwidth(cluster):
    """Rate of a TCP stream from node02 to node01 [MB/s of payload], all of which arrived.

    The time begins before the first byte is sent and ends after the last one arrived. So a host
    that is late makes the rate smaller, and never larger.
    """
    code = """
import os, socket, time
size = 32 << 20
if os.environ["SLURM_PROCID"] == "0":
    server = socket.create_server(("", 14500))
    taken, _ = server.accept()
    while size:
        got = len(taken.recv(1 << 20))
        assert got, "the other end is gone"
        size -= got
    taken.sendall(b"x")
    print("received")
else:
    while True:
        try:
            s = socket.create_connection(("node01", 14500)); break
        except OSError:
            time.sleep(0.05)
    begin = time.monotonic()
    s.sendall(bytes(size))
    s.recv(1)
    print(size / (time.monotonic() - begin) / 1e6)
"""
    return float(cluster.job(f"exec python3 -c '{code}'")["node02"])


def connection(cluster, seconds=None):
    """Connects from node01 to the port of slurmd on node02; returns what it printed."""
    code = f"import socket; socket.create_connection(('node02', 6818), {seconds}); print('there')"
    done = cluster("run", "node01", "--", "python3", "-c", code, check=False)
    return done.stdout.strip() or done.stderr.splitlines()[-1]


def test_a_cable_that_is_out_and_in_again(healthy):
    healthy("fault", "link-down", "node02")
    # Nothing answers, so it does not matter how long is waited.
    assert re.search("timed out|No route to host", connection(healthy, seconds=1))
    healthy("clear")
    assert connection(healthy) == "there"


def test_a_crashed_node_ends_its_job_and_comes_back(healthy):
    code, said = healthy.crash_in_a_job()
    assert code != 0 and "node02" in said.lower()


@pytest.mark.parametrize("what", ["mtu", "mount", "options"])
def test_drift_makes_one_node_different_until_it_is_cleared(healthy, what):
    look = f"cat /sys/class/net/eth0/mtu; grep -c ' {healthy.state}/scratch .*sync' /proc/mounts;"
    look = f"echo $({look} grep -c ' {healthy.state}/scratch ' /proc/mounts)"
    before = healthy.job(look)
    assert before["node01"] == before["node02"]
    healthy("fault", "drift", "node02", what)
    said = healthy.job(look)
    assert said["node02"] != said["node01"] == before["node01"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rate", "node09", "1gbit"), "no node 'node09'; there are node01, node02, node03"),
        (("rate", "node01", "fast"), "'fast' is not a rate of tc"),
        (("cpu", "node01", "0"), "'0' is not a percentage"),
        (("loss", "node01", "100"), "link-down"),
        (("drift", "node01", "taste"), "there are mtu, mount, options"),
    ],
)
def test_a_fault_that_is_none_is_one_clear_line(cluster, words, message):
    done = cluster("fault", *words, check=False)
    assert done.returncode == 1
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
    assert "fault" not in cluster("status").stdout
