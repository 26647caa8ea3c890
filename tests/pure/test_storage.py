"""Sizes in the words of a site, the record of a file system, and the script of the node."""

import json
import sys
from pathlib import Path

import pytest
import shell

import assay.onnode
from assay.checks import storage

SCRIPT = Path(assay.onnode.__file__).with_name("storage.py")


@pytest.mark.parametrize(("said", "size"), [("2x-memory", 2000), ("1.5x-memory", 1500), (7, 7)])
def test_a_size_in_the_words_of_a_site(said, size):
    assert storage.bytes_asked_for(said, 1000) == size


@pytest.mark.parametrize("said", ["2x", "x-memory", "0x-memory", "2 GiB", 0, -1, 1.5, True, None])
def test_what_is_not_a_size(said):
    with pytest.raises(ValueError, match="give 2x-memory, or a number of bytes"):
        storage.bytes_asked_for(said, 1000)


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
    said = storage.described(found, found["memory"]["limit"] // 2)
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
