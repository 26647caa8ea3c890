"""Files that nodes share, over real processes: what one of them sees differently is named."""

import os

import pytest
import shell
from nodes import LAUNCHER, need_namespaces

pytestmark = pytest.mark.slow

#: In the namespaces of a node, before its process starts: a boot number of its own.
BOOT = "mount --bind {boots}/$PMIX_RANK /proc/sys/kernel/random/boot_id"

#: Keeps the first content of each file, as a cache that is never invalidated.
STALE = """
import builtins, io
first, real = {}, builtins.open
def stale(path, mode="r", *more, **options):
    if mode != "rb" or "assay-coherence" not in str(path):
        return real(path, mode, *more, **options)
    with real(path, mode) as file:
        return io.BytesIO(first.setdefault(path, file.read()))
builtins.open = stale
"""


def coherence(bench, folder, fault="true", **extras):
    """Runs the test on three nodes that share a directory; node03 has the fault."""
    need_namespaces()
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a file system")
    boots, shared, stale = (folder / name for name in ("boots", "shared", "stale"))
    for made in (boots, shared, stale):
        made.mkdir()
    for rank in range(3):
        (boots / str(rank)).write_text(f"boot-{rank}\n")
    (stale / "sitecustomize.py").write_text(STALE)
    first = BOOT.format(boots=boots)
    if shell.run("unshare", "--mount", "sh", "-c", f"PMIX_RANK=0; {first}").returncode:
        pytest.skip("cannot mount here: the boot number of a node")
    broken = fault.format(shared=shared, stale=stale, boots=boots)
    node = f"{first}; [ $PMIX_RANK != 2 ] || {broken}; exec"
    launcher = LAUNCHER.replace("--uts", "--uts --mount").replace("exec", node)
    path = bench.program("live", "mpirun", launcher)
    said = {"directory": str(shared), "nodes": 3, "options": {"Coherence.within": 1}, **extras}
    bench.partition(features=["storage", "shared"], extras=said)
    bench.stack("live", ["mpi"], path)
    run = bench.run("-n", "Coherence", path="reframe/storage/coherence.py")
    assert list(shared.iterdir()) == [], "no file is left behind"
    return run


def test_nodes_that_share_a_directory_see_the_same(bench, tmp_path):
    outcome = coherence(bench, tmp_path).says("Coherence")
    rows = outcome.record["parsed"]["rows"]
    assert len(rows) == 3 * 2 * 4 and all(row["same"] for row in rows)
    places = outcome.record["proof"]["places"]
    assert {name: place["boot"] for name, place in places.items()} == {
        "node01": "boot-0",
        "node02": "boot-1",
        "node03": "boot-2",
    }


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "mount -t tmpfs none {shared}",
            [
                "node01 does not see the file of node03 (new) after ",
                "node03 does not see the file of node01 (new) after ",
                "s: there is no such file; the directory does not list it",
                "the directory is not one mount: ",
            ],
        ),
        pytest.param(
            "export PYTHONPATH={stale}",
            [
                "node03 does not see the file of node01 (changed) after ",
                "its content is stale, that of an earlier state",
            ],
            marks=pytest.mark.long,
        ),
        (
            "mount --bind {boots}/1 /proc/sys/kernel/random/boot_id",
            ["node02 and node03 are not known to be two nodes: their boot number is boot-1"],
        ),
    ],
    ids=["a local disk", "a stale cache", "one kernel"],
)
def test_a_node_that_sees_something_else_is_named(bench, tmp_path, fault, said):
    outcome = coherence(bench, tmp_path, fault).case("Coherence")
    assert outcome.result == "fail"
    problems = "\n".join(outcome.record["problems"])
    for words in said:
        assert words in problems


def test_another_file_system_than_the_site_states(bench, tmp_path):
    run = coherence(bench, tmp_path, file_system="fuse.glusterfs")
    run.says("Coherence", "node01: the directory is ", ", not fuse.glusterfs")


def test_servers_are_compared_only_where_files_name_them(bench, tmp_path):
    extras = {"directory": str(tmp_path), "nodes": 3, "file_system": "nfs4"}
    bench.partition(features=["storage", "shared"], extras=extras)
    bench.stack("any", ["mpi"])
    run = bench.run("-n", "EachServer", path="reframe/storage/each_server.py")
    assert run.case("EachServer").result == "skip"
    said = "the server of a file is known on fuse.glusterfs; this directory is nfs4"
    assert said in run.output
