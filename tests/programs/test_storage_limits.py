"""Real file systems that are too small, of another type, or lack a requested feature."""

import os
import subprocess
from contextlib import contextmanager

import pytest
from bench import Recorded, live_program

pytestmark = pytest.mark.slow


@contextmanager
def mounted(kind, folder, *options):
    """A file system of type `kind`; skips the test if it cannot be mounted."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a file system")
    folder.mkdir()
    words = ["mount", "-t", kind, *options, "none", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_class_that_does_not_fit_is_refused_with_its_bytes_before_it_begins(bench, tmp_path):
    began = tmp_path / "began"
    path = bench.program("any", "bt.W.x.mpi_io_full", f"#!/bin/sh\ntouch {began}\n")
    bench.stack("any", ["btio"], path, btio_classes=["S", "W"], btio_subtypes=["full"])
    bench.record_all()
    with mounted("tmpfs", tmp_path / "small", "-o", "size=2m") as small:
        bench.storage(small, launcher="local", extras={"btio_class": "W"})
        run = bench.run("-n", "BtIo.*full.*ompio", path="reframe/storage/btio.py")
    outcome = run.case("BtIo")
    assert outcome.result == "fail"
    assert (
        f"BT-IO full class W writes 22118400 bytes, {small} has 2097152 free: make room there"
    ) in outcome.reason
    assert len(outcome.record["problems"]) == 1
    assert not began.exists()


def test_a_file_system_without_o_direct_is_skipped(bench, tmp_path):
    live_program("iozone")
    bench.stack("system", ["iozone"])
    bench.record_all()
    with mounted("ramfs", tmp_path / "ram") as ram:
        bench.storage(ram)
        run = bench.run(
            "-n", "Iozone.*direct", "-S", "profile=smoke", path="reframe/storage/iozone.py"
        )
    assert run.case("Iozone").result == "skip"
    assert f"{ram} (ramfs) has no O_DIRECT" in run.output


def test_another_file_system_than_the_site_says(bench, tmp_path):
    """The directory can exist although Lustre is not mounted there."""
    live_program("iozone")
    bench.stack("system", ["iozone"])
    bench.record_all()
    with mounted("tmpfs", tmp_path / "lustre") as folder:
        bench.storage(folder, extras={"file_system": "lustre"})
        run = bench.run("-n", "Iozone.*cached", "--mode", "smoke", path="reframe/storage/iozone.py")
    outcome = run.case("Iozone")
    assert outcome.result == "fail"
    assert f"{folder} is tmpfs (mounted at {folder}); the site says lustre" in outcome.reason


def largest(bench, tmp_path, said, memory):
    """Runs IOzone with one large file, whose size the site sets."""
    live_program("iozone")
    bench.storage(tmp_path, extras={"iozone_largest": said, "memory_bytes": memory})
    bench.stack("system", ["iozone"])
    bench.record_all()
    return bench.run("-n", "IozoneLargest", path="reframe/storage/iozone.py").case("IozoneLargest")


def test_a_file_beyond_the_caches_as_large_as_the_site_says(bench, tmp_path):
    outcome = largest(bench, tmp_path, 5 * 2**20 + 1, 2**33)
    assert outcome.result == "pass", outcome.reason
    assert [row["file_size"] for row in outcome.record["parsed"]["rows"]] == [5 * 1024]
    assert outcome.record["proof"]["storage"]["largest_file_bytes"] == 5 * 2**20


def test_a_file_sized_by_less_memory_than_the_node_has(bench, tmp_path):
    outcome = largest(bench, tmp_path, "2x-memory", 2**21)
    assert outcome.result == "fail"
    assert "bytes of memory, memory_bytes says 2097152" in outcome.reason


def test_a_size_that_is_none(bench, tmp_path):
    outcome = largest(bench, tmp_path, "2 x memory", 2**33)
    assert outcome.result == "fail"
    assert (
        "partition 'here': extras: iozone_largest: '2 x memory' is no size: say" in outcome.reason
    )


def test_mpi_io_by_another_library_than_the_one_asked_for(bench, tmp_path):
    bench.storage(tmp_path, launcher="local")
    built = {"btio_classes": ["S"], "btio_subtypes": ["full"]}
    bench.replayed("bt.S.x.mpi_io_full", ["btio"], Recorded.load("btio-full"), **built)
    bench.record_all()
    outcome = bench.run("-n", "BtIo.*full.*romio", path="reframe/storage/btio.py").case("BtIo")
    assert outcome.result == "fail"
    assert "MPI-IO was done by ompio; romio was asked for" in outcome.reason


#: More ranks than this machine may have cores.
FOUR = {
    "processor": {
        "num_cpus": 4,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": 4,
        "num_sockets": 1,
    },
    "env_vars": [
        ["OMPI_ALLOW_RUN_AS_ROOT", "1"],
        ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"],
        ["OMPI_MCA_rmaps_base_oversubscribe", "1"],
    ],
}


@pytest.mark.parametrize("library", ["ompio", "romio"])
def test_the_real_program_writes_by_the_library_asked_for(bench, tmp_path, library):
    live_program("bt.S.x.mpi_io_simple")
    bench.storage(tmp_path, **FOUR)
    bench.stack("system", ["btio"], btio_classes=["S"], btio_subtypes=["simple"])
    bench.record_all()
    run = bench.run("-n", f"BtIo.*simple.*{library}", path="reframe/storage/btio.py")
    assert len(run.cases) == 2
    for ranks in (1, 4):
        case = run.case(f"BtIo %subtype=simple %mpi_io={library} %ranks={ranks}")
        assert case.result == "pass", case.reason
        assert case.record["parameters"] == {
            "subtype": "simple",
            "mpi_io": library,
            "ranks": ranks,
            "npb_class": "S",
        }
        assert [name[: len(library)] for name in case.record["proof"]["mpi_io"]] == [library]
    assert not list(tmp_path.glob("assay.*"))
