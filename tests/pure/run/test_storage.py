"""Sizes in the words of a site, the record of a file system, and the script of the node."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import shell

import assay.node
from assay.run import options, storage

SCRIPT = Path(assay.node.__file__).with_name("storage.py")


@pytest.mark.parametrize(("said", "size"), [("2x-memory", 2000), ("1.5x-memory", 1500), (7, 7)])
def test_a_size_in_the_words_of_a_site(said, size):
    assert storage.bytes_asked_for(said, 1000) == size


@pytest.mark.parametrize("said", ["2x", "x-memory", "0x-memory", "2 GiB", 0, -1, 1.5, True, None])
def test_what_is_not_a_size(said):
    assert not isinstance(said, options.SIZE)


def look(where, needed, *options):
    """Runs the script as a job does; returns its exit code and the files in `where`."""
    words = (sys.executable, SCRIPT, where / "fs", "a benchmark", needed)
    done = shell.run(*words, "--found=found", "--refused=refused", *options, cwd=where)
    left = {path.name: path.read_text() for path in where.iterdir() if path.is_file()}
    return done.returncode, left


@pytest.fixture
def where(tmp_path):
    (tmp_path / "fs").mkdir()
    return tmp_path


def test_what_the_job_finds_is_what_the_record_states(where):
    rc, left = look(where, 1)
    assert (rc, set(left)) == (0, {"found"})
    found = json.loads(left["found"])
    said = storage.describe_file_system(found, found["memory"]["limit"] // 2)
    assert said["largest_file_per_memory"] == pytest.approx(0.5)
    assert said["size_bytes"] >= said["free_bytes"] > 0
    assert 0 <= said["fill"] <= 1
    assert str(where).startswith(said["mount"])
    assert said["caches_dropped"] is False
    assert list((where / "fs").iterdir()) == []


def test_more_than_is_free_is_refused_with_the_number_of_bytes(where):
    rc, left = look(where, 10**18)
    assert rc == 1
    free = json.loads(left["found"])["file_system"]["free_bytes"]
    assert left["refused"] == (
        f"a benchmark writes {10**18} bytes, {where / 'fs'} has {free} free: "
        "make room there, or choose less\n"
    )


#: The script, on a file system with so much room.
WITH_ROOM = """
import runpy, sys
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import capacity
real, size, free = capacity.file_system, *map(int, sys.argv[2:4])
capacity.file_system = lambda at: {**real(at), "size_bytes": size, "free_bytes": free}
del sys.argv[:1], sys.argv[1:3]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(("free", "file"), [(300, "skipped"), (100, "skipped"), (99, "refused")])
def test_what_the_memory_makes_too_large_for_the_file_system_is_left_out(where, free, file):
    """Nobody promised the room of several memories, and one that is nearly full is at fault."""
    words = (sys.executable, "-c", WITH_ROOM, SCRIPT, 1000, free, where / "fs", "a benchmark", 400)
    files = ("--found=found", "--refused=refused", "--skipped=skipped", "--of-memory")
    assert shell.run(*words, *files, cwd=where).returncode == 1
    left = {path.name: path.read_text() for path in where.iterdir() if path.is_file()}
    said = left.pop(file)
    assert said.removeprefix("too-small: ").startswith("a benchmark writes 400 bytes, ")
    assert said.startswith("too-small: ") is (file == "skipped")
    assert {*left} == {"found"}


#: A writer for the script to see: opens `name` with `flags`, writes 8 KiB, and stays until its
#: input ends.
WRITER = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | eval(sys.argv[2]), 0o600)
os.write(file, mmap.mmap(-1, 8192))
print("written", flush=True)
sys.stdin.read()
"""


def watched(where, path, flags="0"):
    """What the script sees of a process that writes the file `path`, relative to `where`."""
    look(where, 1, "--watch=files")
    (where / "fs/assay.123456").mkdir()
    words = [sys.executable, "-c", WRITER, path, flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=where, stdin=pipe, stdout=pipe, text=True) as writer:
        assert writer.stdout.readline() == "written\n"
        os.kill(int((where / "files.pid").read_text()), signal.SIGTERM)
        end = time.monotonic() + 60
        while not (where / "files").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
    assert writer.returncode == 0
    found = json.loads((where / "found").read_text())["file_system"]
    seen = json.loads((where / "files").read_text())
    # Other tests may run beside this one.
    return [file for file in seen if file["path"].startswith(str(where))], found["statfs"]


@pytest.mark.parametrize("flag", ["O_SYNC", "O_DSYNC"])
def test_the_flags_of_the_file_that_was_written_are_seen(where, flag):
    (file,), kind = watched(where, "fs/assay.123456/file", f"os.{flag}")
    assert (file["inside"], file["written"], file["bytes"], file["type"]) == (
        *(True, True, 8192),
        kind,
    )
    assert (file["o_sync"], file["o_direct"]) == (flag == "O_SYNC", False)
    assert storage.not_written([file], "fs", kind) == []
    assert storage.in_another_mode([file], False, flag == "O_SYNC") == []
    assert len(storage.in_another_mode([file], True, flag != "O_SYNC")) == 2


def test_a_file_that_is_closed_during_a_look_is_not_seen(where, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = shell.module(SCRIPT)
    watch, tmpfs = script.Watch(str(where)), 0x01021994
    with (where / "file").open("w") as file:
        for answer, seen in ((None, 0), (tmpfs, 1)):
            monkeypatch.setattr(script.capacity, "magic", lambda _, answer=answer: answer)
            watch.file("/proc/self", str(file.fileno()))
            assert [each["type"] for each in watch.seen.values()] == ["tmpfs"] * seen


def test_a_file_that_was_written_elsewhere_is_named(where):
    files, kind = watched(where, f"../{where.name}.elsewhere")
    assert storage.not_written(files, "/scratch", kind) == [
        f"no process was seen to write a file in /scratch; {where}.elsewhere ({kind}) was written"
    ]
    assert storage.unseen(files, "/scratch") == ""


def test_a_watch_that_saw_nothing_decides_nothing():
    reading = {"path": "/s/f", "inside": True, "written": False, "type": "xfs", "bytes": 1}
    for files in ([], [reading]):
        assert storage.not_written(files, "/s", "xfs") == []
        assert storage.unseen(files, "/s").startswith("the watch over open files saw nobody write")


def test_a_link_to_another_file_system_is_followed(where):
    """Benchmarks write to the path that they are given; the kernel names the file."""
    (where / "fs/assay.123456x").symlink_to(f"{where}.elsewhere")
    files, kind = watched(where, "fs/assay.123456x")
    assert [file["inside"] for file in files] == [False]
    assert "elsewhere" in storage.not_written(files, "/scratch", kind)[0]


def test_a_file_on_another_file_system_than_its_directory():
    file = {"path": "/s/assay.1/f", "inside": True, "written": True, "type": "tmpfs", "bytes": 1}
    assert storage.not_written([file], "/s", "xfs") == [
        "files of /s were on tmpfs, the directory is on xfs"
    ]
    assert storage.not_written([file], "/s", "tmpfs") == []


def test_the_mode_of_most_looks_counts():
    """IOzone creates its file without O_SYNC, closes it, and opens it again with O_SYNC."""
    plain = {"written": True, "o_direct": False, "o_sync": False, "looks": 2}
    files = [plain, {**plain, "o_sync": True, "looks": 30}, {**plain, "written": False}]
    assert storage.in_another_mode(files, o_direct=False, o_sync=True) == []
    assert storage.in_another_mode(files, o_direct=True, o_sync=True) == [
        "the files were open for writing without O_DIRECT in 32 of 32 looks"
    ]
    assert storage.in_another_mode(files, o_direct=False, o_sync=False) == [
        "the files were open for writing with O_SYNC in 30 of 32 looks"
    ]
    assert storage.in_another_mode(files, o_direct=True, o_sync=False, written=False) == [
        "the files were open for reading without O_DIRECT in 2 of 2 looks"
    ]


def test_a_cell_beyond_any_memory_is_named_with_its_operation():
    rows = [{"write": 1_000_000, "read": 20_000_000}, {"write": 900_000, "read": 10**12}]
    assert storage.too_fast(rows[:1], ["write", "read"]) == []
    (said,) = storage.too_fast(rows, ["write", "read"])
    assert said.startswith("read: 1e+12 KiB/s in one cell: no memory carries more than")


def test_a_watch_that_is_slow_to_begin_misses_nobody(where, monkeypatch):
    """Made: the process that was left behind gets no time until the benchmark holds its file."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = shell.module(SCRIPT)
    monkeypatch.setattr(script.os, "fork", lambda: 12345)
    made = []
    monkeypatch.setattr(script, "Watch", made.append)
    assert script.watch(str(where), "files", os.getpid()) == 12345
    assert made == [f"{where}/assay."]


@pytest.mark.parametrize(("rate", "copy", "said"), [(6e9, 10e9, True), (4e9, 10e9, False)])
def test_a_read_as_fast_as_the_memory_came_from_the_page_cache(rate, copy, said):
    why = storage.from_memory(rate, copy)
    assert bool(why) == said
    assert not said or why.startswith("a process read at 6000 MB/s, more than half of the rate of")
    assert storage.from_memory(rate, None) == ""


IOR = shell.module("reframe/storage/ior.py")


@pytest.mark.parametrize(
    ("nodes", "profile", "unjudged", "missed"),
    [(1, "smoke", True, False), (1, "full", False, True), (2, "full", False, False)],
)
def test_ior_does_not_judge_what_the_page_cache_answered(nodes, profile, unjudged, missed):
    class Case(IOR.Ior.__mro__[-1]):
        __getattr__ = lambda self, what: getattr(IOR.Ior, what).__get__(self)  # noqa: E731

    case, why = Case(), "the page cache answered, and not the disk"
    parsed = SimpleNamespace(at=lambda *_, **__: 12 * 1024)
    vars(case).update(
        profile=profile, _seconds=300, _parsed=parsed,
        _layout=SimpleNamespace(nodes=nodes, per_node=2),
        record=SimpleNamespace(proof={"storage": {"memory_copy_bytes_per_s": 10e9}}),
    )  # fmt: skip
    assert (why in case.unjudged(parsed).get("read", "")) == unjudged
    assert (why in case.from_memory(parsed)) == (nodes == 1)
    assert missed == (profile == "full" and nodes == 1)
