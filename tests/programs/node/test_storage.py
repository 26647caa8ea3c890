"""Real file systems that are too small, of another type, or lack a requested feature."""

import shlex
import sys
from pathlib import Path

import pytest
from bench import DATA, OF_NOW, Recorded, live_program, mounted, processor

pytestmark = pytest.mark.slow


def test_a_class_that_does_not_fit_is_refused_with_its_bytes_before_it_begins(bench, tmp_path):
    began = tmp_path / "began"
    path = bench.program("any", "bt.W.x.mpi_io_full", f"#!/bin/sh\ntouch {began}\n")
    bench.stack("any", ["btio"], path, btio_built={"classes": ["S", "W"], "subtypes": ["full"]})
    with mounted("tmpfs", tmp_path / "small", "-o", "size=2m") as small:
        bench.storage(small, launcher="replay", extras={"options": {"BtIo.full_class": "W"}})
        run = bench.run("-n", "BtIo.*full.*ompio", path="reframe/storage/btio.py")
    said = f"BT-IO full class W writes 22118400 bytes, {small} has 2097152 free: make room there"
    outcome = run.says("BtIo", said)
    assert len(outcome.record["problems"]) == 1
    assert not began.exists()


def iozone(bench, folder, *case, **extras):
    """Runs the IOzone of this machine on a partition with this directory."""
    live_program("iozone")
    return iozone_of(bench, None, folder, *case, **extras)


def iozone_of(bench, path, folder, *case, **extras):
    """The same with the IOzone in `path`."""
    bench.storage(folder, extras=extras)
    bench.stack("system", ["iozone"], path)
    return bench.run("-n", *case, path="reframe/storage/iozone.py")


def test_a_file_system_without_o_direct_is_skipped(bench, tmp_path):
    with mounted("ramfs", tmp_path / "ram") as ram:
        run = iozone(bench, ram, "Iozone.*direct", "-S", "profile=smoke")
    assert run.case("Iozone").result == "skip"
    assert f"{ram} (ramfs) has no O_DIRECT" in run.output


def test_a_full_scratch_file_system(bench, tmp_path):
    """The file system has free bytes but no free inode. Without bytes, the test would not start."""
    with mounted("tmpfs", tmp_path / "small", "-o", "size=64m,nr_inodes=2") as small:
        run = iozone(bench, small, "Iozone.*cached", "--mode", "smoke")
    run.says("Iozone", "No space left on device")


@pytest.mark.parametrize(
    ("extras", "said"),
    [({"file_system": "lustre"}, "lustre"), ({}, "nothing of a file system in memory")],
)
def test_another_file_system_than_the_site_says(bench, tmp_path, extras, said):
    """The directory can exist although Lustre is not mounted there."""
    with mounted("tmpfs", tmp_path / "lustre") as folder:
        run = iozone(bench, folder, "Iozone.*cached", "--mode", "smoke", **extras)
    run.says("Iozone", f"{folder} is tmpfs (mounted at {folder}); the site says {said}")


#: Prints a recorded run of IOzone on a file of 128 MiB, and holds such a file open until the watch
#: over open files has seen it. The watch may miss how large a file of the program itself becomes.
LARGEST = """\
#!/bin/sh
for file; do :; done
truncate -s {size} "$file"
{hold} "$file"
{of_now}
of_now {recorded}
"""


def test_a_file_that_fits_into_the_memory_is_not_beyond_the_caches(bench, tmp_path):
    """The file is as large as the site says, and was seen to be."""
    script = LARGEST.format(
        size=2**27,
        hold=shlex.join([sys.executable, str(Path(__file__).parents[1] / "hold_file.py")]),
        of_now=OF_NOW,
        recorded=DATA / "replay/iozone-largest/stdout",
    )
    path = bench.program("system", "iozone", script)
    extras = {"options": {"IozoneLargest.largest": 2**27 + 1}, "memory_bytes": 2**33}
    said = "the file of 134217728 bytes fits into the memory of the node"
    outcome = iozone_of(bench, path, tmp_path, "IozoneLargest", **extras).case("IozoneLargest")
    outcome.says(said)
    assert len(outcome.record["problems"]) == 1
    assert [row["file_size"] for row in outcome.record["parsed"]["rows"]] == [2**17]
    proof = outcome.record["proof"]["storage"]
    assert proof["largest_file_bytes"] == max(file["bytes"] for file in proof["files"]) == 2**27


@pytest.mark.parametrize(
    ("said", "memory", "cause"),
    [
        ("2x-memory", 2**21, "bytes of memory, memory_bytes says 2097152"),
        (
            "2 x memory",
            2**33,
            "partition 'here': options: IozoneLargest.largest: '2 x memory' is not 2x-memory, or a",
        ),
    ],
    ids=["less memory than the node has", "no size"],
)
def test_a_size_that_cannot_be_run(bench, tmp_path, said, memory, cause):
    extras = {"options": {"IozoneLargest.largest": said}, "memory_bytes": memory}
    iozone(bench, tmp_path, "IozoneLargest", **extras).case("IozoneLargest").says(cause)


def test_mpi_io_by_another_library_than_the_one_asked_for(bench, tmp_path):
    run = bench.replayed_btio(tmp_path, Recorded.load("btio-full"), "BtIo.*full.*(ompio|romio)")
    run.says("BtIo %subtype=full %mpi_io=ompio")
    said = "MPI-IO was done by ompio; romio was asked for"
    run.says("BtIo %subtype=full %mpi_io=romio", said)


#: More ranks than this machine may have cores.
FOUR = {
    "processor": processor(4),
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
    bench.stack("system", ["btio"], btio_built={"classes": ["S"], "subtypes": ["simple"]})
    run = bench.run("-n", f"BtIo.*simple.*{library}", path="reframe/storage/btio.py")
    assert len(run.cases) == 2
    for ranks in (1, 4):
        case = run.says(f"BtIo %subtype=simple %mpi_io={library} %ranks={ranks}")
        assert case.record["parameters"]["npb_class"] == "S"
        assert [name[: len(library)] for name in case.record["proof"]["mpi_io"]] == [library]
    assert not list(tmp_path.glob("assay.*"))


#: Starts the real fio so that it reads by the page cache, and mends what its report says of that.
CACHED = """\
#!/bin/sh
for word; do
    shift
    set -- "$@" "$word"
    [ "$word" != --name=read ] || set -- "$@" --direct=0
done
{fio} "$@" | sed 's/"direct" : "0"/"direct" : "1"/'
"""


def test_reads_by_the_page_cache_that_the_report_denies(bench, tmp_path):
    real = live_program("fio")
    path = bench.program("system", "fio", CACHED.format(fio=real))
    bench.storage(tmp_path, launcher="replay")
    bench.stack("system", ["fio"], path)
    run = bench.run("-n", "Fio", "--mode", "smoke", path="reframe/storage/fio.py")
    run.says("Fio", "the files were open for reading without O_DIRECT in")


def test_fio_is_skipped_without_o_direct_and_refused_without_space(bench, tmp_path):
    """Neither begins: the program would fail."""
    bench.stack("any", ["fio"], bench.program("any", "fio", "#!/bin/sh\nexit 1\n"))
    options = {"options": {"Fio.bytes": 10**18}}
    bench.storage(tmp_path, launcher="replay", name="small", extras=options)
    with mounted("ramfs", tmp_path / "ram") as ram:
        bench.storage(ram, launcher="replay", extras={"file_system": "ramfs"})
        run = bench.run("-n", "Fio", path="reframe/storage/fio.py")
        short = bench.run("-n", "Fio", "-S", "profile=smoke", path="reframe/storage/fio.py")
    assert run.case("Fio", partition="here").result == "skip"
    assert "in memory, which 30 s of writing would fill" in run.output
    assert short.case("Fio", partition="here").result == "skip"
    assert f"{ram} (ramfs) has no O_DIRECT" in short.output
    run.says("Fio", f"writes {10**18 >> 20 << 20} bytes, {tmp_path} has", partition="small")
