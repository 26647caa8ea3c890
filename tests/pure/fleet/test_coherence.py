"""What nodes see of each other's files: real files, and a directory that differs from them."""

import importlib
import json
import sys

import pytest
from shell import ROOT

from assay.fleet import coherence
from assay.fleet.coordinator_log import parse_coordinator_log

NODES = {0: "node01", 1: "node02", 2: "node03"}
PLACE = {"type": "fuse.glusterfs", "source": "node01:glusterfs", "mount": "/shared"}


@pytest.fixture(scope="module")
def script():
    """The script of the nodes, as a module."""
    sys.path.insert(0, str(ROOT / "src/assay/fleet/node"))
    yield importlib.import_module("coherence")
    sys.path.pop(0)
    for name in ("coherence", "meeting", "provenance"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(script, tmp_path):
    """Node01 writes, and the others read; returns the log.

    `sees(path, state)` gives the path that node03 reads, after node01 has written.
    """

    def make(sees=lambda path, state: path, places=None):
        (tmp_path / "shared").mkdir()
        path = tmp_path / "shared/file"
        lines = [{"asked": 3, "met": NODES, "absent": []}]
        for rank in NODES:
            place = {**PLACE, "boot": f"boot-{rank}", **(places or {}).get(rank, {})}
            lines.append({"node": rank, "place": place})
        for state in coherence.STATES:
            wrote = script.work({"do": "write", "path": str(path), "state": state, "bytes": 5000})
            lines.append({"node": 0, "state": state, "wrote": wrote})
            wanted = {key: value for key, value in wrote.items() if key != "meant"}
            for rank in (1, 2):
                there = path if rank == 1 else sees(path, state)
                order = {"do": "read", "path": str(there), "wanted": wanted, "within": 0}
                lines.append({"node": rank, "state": state, "of": 0, "read": script.work(order)})
        lines.append({"gone": {}, "end": True})
        return parse_coordinator_log("".join(json.dumps(line) + "\n" for line in lines))

    return make


def said(log):
    found, failed = coherence.looks(log)
    return [*failed, *coherence.differences(found)]


def test_nodes_that_see_the_same_are_not_named(run):
    log = run()
    assert said(log) == []
    found, _ = coherence.looks(log)
    assert len(found) == 2 * len(coherence.STATES) and all(look.same for look in found)
    assert list(coherence.misplaced(coherence.places(log), "fuse.glusterfs")) == []


def test_a_node_whose_directory_is_a_local_disk_has_no_file(run, tmp_path):
    (tmp_path / "local").mkdir()
    log = run(lambda path, state: tmp_path / "local" / path.name)
    lines = said(log)
    assert len(lines) == 3 and all(line.startswith("node03 does not see") for line in lines)
    assert lines[0].endswith("there is no such file; the directory does not list it")
    local = {2: {"type": "xfs", "source": "/dev/loop3", "mount": "/"}}
    places = {**coherence.places(log), "node03": {"boot": "boot-2", **local[2]}}
    lines = list(coherence.misplaced(places, "fuse.glusterfs"))
    assert lines[0] == "node03: the directory is xfs (mounted at /), not fuse.glusterfs"
    assert lines[1].startswith("the directory is not one mount: node01: fuse.glusterfs node01:")


def stale(tmp_path):
    """The reader sees a copy of the first state for ever."""

    def sees(path, state):
        copy = tmp_path / "cache" / path.name
        if state == "new":
            copy.parent.mkdir()
            copy.write_bytes(path.read_bytes())
        return copy

    return sees


def test_stale_content_is_told_from_other_bytes(run, tmp_path):
    lines = said(run(stale(tmp_path)))
    (changed,) = [line for line in lines if "(changed)" in line]
    assert "its content is stale, that of an earlier state" in changed
    (longer,) = [line for line in lines if "(longer)" in line]
    assert "it has 5000 bytes instead of 7500" in longer
    (gone,) = [line for line in lines if "(gone)" in line]
    assert gone.endswith("it is there although it was removed; the directory still lists it")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"x" + data[1:], "it has other bytes"),
        (lambda data: data[:-1], "it has other bytes; it has 4999 bytes instead of 5000"),
    ],
)
def test_damaged_content_is_named(run, tmp_path, damage, reason):
    def sees(path, state):
        copy = tmp_path / "damaged" / path.name
        if state != "new":
            return path
        copy.parent.mkdir()
        copy.write_bytes(damage(path.read_bytes()))
        return copy

    (line,) = said(run(sees))
    assert line.startswith("node03 does not see the file of node01 (new) after ")
    assert reason in line


def test_a_name_that_stays_in_a_directory_is_named(run, tmp_path):
    def sees(path, state):
        copy = tmp_path / "list" / path.name
        if state != "gone":
            return path
        copy.parent.mkdir()
        copy.symlink_to(tmp_path / "nothing")
        return copy

    (line,) = said(run(sees))
    assert line.endswith("s: the directory still lists it")


def test_a_file_that_cannot_be_written_or_read_is_named(run, script, tmp_path):
    (tmp_path / "x").mkdir()
    order = {"do": "write", "path": str(tmp_path / "none/x"), "state": "new", "bytes": 1}
    assert "No such file or directory" in script.work(order)["error"]
    log = run(lambda path, state: tmp_path / "x")
    assert all("it cannot be read: Is a directory" in line for line in said(log)[:3])


def test_two_processes_of_one_kernel_are_not_two_nodes(run):
    log = run(places={2: {"boot": "boot-1"}})
    assert list(coherence.misplaced(coherence.places(log), None)) == [
        "node02 and node03 are not known to be two nodes: their boot number is boot-1"
    ]


def test_an_unknown_boot_number_is_no_evidence(run):
    log = run(places={rank: {"boot": None} for rank in NODES})
    assert len(list(coherence.misplaced(coherence.places(log), None))) == 3


def test_looks_that_are_missing_are_counted(run):
    found, _ = coherence.looks(run())
    assert coherence.missing(found, ["node01", "node02", "node03"]) == [
        "16 of 24 looks are missing"
    ]


def test_a_writer_that_does_not_read_its_own_bytes_is_named(run):
    log = run()
    for entry in log.entries:
        if entry.get("wrote", {}).get("sha256"):
            entry["wrote"]["meant"] = "0"
    assert said(log)[0] == "node01 does not read what it wrote itself (new)"


def recorded(name):
    return parse_coordinator_log((ROOT / f"tests/data/shared-files/{name}.jsonl").read_text())


def test_a_recorded_run_of_four_nodes_saw_the_same():
    log = recorded("coherence")
    found, _ = coherence.looks(log)
    assert said(log) == coherence.missing(found, log.nodes) == log.problems == []
    assert list(coherence.misplaced(coherence.places(log), "fuse.glusterfs")) == []


def test_a_recorded_cache_that_kept_pages_is_named():
    log = recorded("coherence-kept-cache")
    lines = said(log)
    assert all("(changed)" in line or "(longer)" in line for line in lines)
    changed = [line for line in lines if "(changed)" in line]
    assert len(changed) == 9 and all(line.endswith("s: it has other bytes") for line in changed)
    assert "its time of change differs by -1.295770 s" in lines[-1]
    assert log.problems == ["the meeting of the nodes was cut short"]
