"""/etc of an emulated machine: its own files, and links that follow the files of the host."""

import sys

import pytest
from shell import ROOT


@pytest.fixture
def etc(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "lab/vcluster"))
    sys.modules.pop("etc", None)
    import etc

    return etc


@pytest.fixture
def machine(etc, tmp_path):
    host, own, files = tmp_path / "host", tmp_path / "own", tmp_path / "files"
    for folder in (host, own, files):
        folder.mkdir()
    for name in etc.OWN:
        (host / name).write_text("the host's\n")
        (files / name).write_text("its own\n")
    (host / "alternatives").mkdir()
    (host / "mtab").symlink_to("../proc/self/mounts")
    (host / "ld.so.cache").write_text("old")
    etc.fill(own, files, host)
    return host, own


def test_files_of_its_own_stay_whatever_the_host_does_to_its(etc, machine):
    """Also a file that the machine made itself."""
    host, own = machine
    (host / "passwd.new").write_text("another\n")
    (host / "passwd.new").replace(host / "passwd")
    (own / "made").write_text("its own\n")
    (host / "made").write_text("another\n")
    etc.follow(own, host)
    assert {(own / name).read_text() for name in (*etc.OWN, "made")} == {"its own\n"}


def test_what_packages_do_to_the_host_is_seen(etc, machine):
    host, own = machine
    assert str((own / "mtab").readlink()) == "../proc/self/mounts"
    (host / "ld.so.new").write_text("new")
    (host / "ld.so.new").replace(host / "ld.so.cache")
    (host / "alternatives/mpirun").write_text("")
    assert (own / "ld.so.cache").read_text() == "new"
    assert (own / "alternatives/mpirun").exists()
    (host / "openmpi").mkdir()
    (host / "mtab").unlink()
    (host / "mtab").symlink_to("/proc/mounts")
    (host / "ld.so.cache").unlink()
    etc.follow(own, host)
    assert (own / "openmpi").is_dir()
    assert str((own / "mtab").readlink()) == "/proc/mounts"
    assert not (own / "ld.so.cache").is_symlink()
