"""A parallel file system of the emulated cluster: all machines share its files.

The suite really writes and reads them. How fast it is are the numbers of a model (modelled.py).
"""

import shutil

import pytest
from emulated import UNJUDGED, Cluster, place, reason_to_skip, up
from modelled import Model
from test_vcluster import traces

WHY = reason_to_skip()
if not WHY and not shutil.which("glusterfsd"):
    WHY = "needs glusterfsd: lab/vcluster/packages.sh --shared"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(WHY is not None, reason=str(WHY))]


@pytest.fixture(scope="module")
def cluster():
    with up("--nodes", "4", "--delay", "0", "--shared", "glusterfs") as made:
        yield made
        made("down")
        assert traces(made.state) == []


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")


def shell(cluster, name, script):
    """The last line that a script prints as the ordinary user, in the shared directory."""
    words = ("run", name, "--", "sh", "-c", f"cd {cluster.state}/glusterfs && {script}")
    return (cluster(*words).stdout.splitlines() or [""])[-1]


def test_a_file_of_one_node_is_on_all_machines(cluster):
    write = "dd if=/dev/urandom of=big bs=1M count=24 status=none && sha256sum <big"
    written = shell(cluster, "node01", write)
    for name in ("login", "node02", "node04"):
        assert shell(cluster, name, "sha256sum <big") == written
        assert shell(cluster, name, "stat -f -c %T . && findmnt -n -o FSTYPE -T .") == (
            "fuse.glusterfs"
        )
    # XFS reserves space for a file that grows, and gives it back some time later. It is no content.
    du = ("du", "--apparent-size", "-sm", f"{cluster.state}/scratch/.brick")
    holds = {
        name: int(cluster("run", "--root", name, "--", *du).stdout.split()[0])
        for name in ("node01", "node02", "node03", "node04")
    }
    assert sum(holds.values()) >= 24 and max(holds.values()) < 24, "the pieces are on several nodes"
    assert shell(cluster, "node02", "ls -l big | cut -d' ' -f5") == str(24 << 20)


def test_a_directory_of_a_brick_is_closed_to_users(cluster):
    done = cluster("run", "node01", "--", "ls", f"{cluster.state}/scratch/.brick", check=False)
    assert "Permission denied" in done.stderr


def test_a_node_that_was_gone_shares_files_again_after_clear(healthy):
    shell(healthy, "node01", "touch before")
    healthy("fault", "crash", "node02")
    healthy("clear")
    assert shell(healthy, "node03", "ls") == "", "its disk is new, and so are all files"
    written = shell(healthy, "node02", "echo again >after && sha256sum <after")
    assert {shell(healthy, name, "sha256sum <after") for name in ("login", "node01")} == {written}


def test_a_cable_that_was_out_is_waited_for(healthy):
    healthy("fault", "link-down", "node03")
    healthy("clear")
    for number in range(8):  # the names select several bricks
        shell(healthy, "node01", f"echo {number} >file{number}")
        assert shell(healthy, "node02", f"cat file{number}") == str(number)


def test_a_cluster_that_was_not_asked_to_shares_none(cluster):
    with place() as state:
        other = Cluster(state)
        try:
            other("up", "--nodes", "2", "--delay", "0", "--unproven")
            assert not (state / "glusterfs").exists()
            mounts = other("run", "node01", "--", "cat", "/proc/mounts").stdout
            assert "glusterfs" not in mounts
        finally:
            other("down")


def test_nodes_with_a_kernel_of_their_own_do_not_share_files():
    with place() as state:
        done = Cluster(state)("up", "--machines", "uml", "--shared", "glusterfs", check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "vcluster: GlusterFS is for nodes that are namespaces: leave out --shared\n"
    )


def test_the_suite_measures_it(healthy):
    # Each node waits only as long as it needs until it sees what another one did.
    cases = suite(healthy, "Iozone.*cached|EachNode|Coherence|EachServer", **LATE)
    wanted = ("Iozone", "EachNode", "Coherence", "EachServer")
    # On a loaded host, the watch over open files may miss a short write of IOzone.
    missed = "the watch over open files saw nobody write a file"
    said = {name: "" if missed in why else why for name, (_, why) in cases.items()}
    assert said == dict.fromkeys(wanted, "")
    rows = healthy.records["EachServer", "glusterfs"]["parsed"]["rows"]
    nodes = [f"node0{k}" for k in range(1, 5)]
    assert {(row["node"], row["server"]) for row in rows} == {(a, b) for a in nodes for b in nodes}


@pytest.mark.parametrize(
    ("fault", "test", "said"),
    [
        (
            ("stale-files", "node02"),
            "Coherence",
            "node02 does not see the file of node01 (changed)",
        ),
        (("delay", "node02", "2000"), "EachServer", "files on node02: write"),
    ],
)
def test_a_fault_of_a_node_is_named_by_the_test_of_the_file_system(healthy, fault, test, said):
    healthy("fault", *fault)
    result, reason = suite(healthy, test)[test]
    assert result == "fail" and said in reason
    if test == "EachServer":
        lines = healthy.records[test, "glusterfs"]["problems"]
        assert {line.split(":")[0] for line in lines} == {"files on node02"}


#: Nodes that share the cores of a host see a change late.
LATE = {"Coherence.within": 3600}


def suite(cluster, tests, **options):
    """Runs tests on the parallel file system; returns test -> result and reason."""
    results = cluster.state / "home/results"
    words = (tests, "--system=vcluster:glusterfs", *UNJUDGED)
    site = cluster.site(options=options)
    _, cases = cluster.suite(*words, results=results, site=site, PATH=Model(cluster).path())
    return {name: case for (name, _), case in cases.items()}
