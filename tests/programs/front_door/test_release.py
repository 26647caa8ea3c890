"""ci/release.py: what a release lists, and that the same content gives the same bytes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import shell
from bench import ROOT

release = shell.module("ci/release.py")


def test_all_that_is_pinned_is_listed():
    listed = release.bom("assay-hpc", "1.0.0", 0, release.parts(ROOT))
    assert listed["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    found = {(each["name"], each["version"]) for each in listed["components"]}
    for lock in (ROOT / "requirements").glob("*.lock"):
        assert set(re.findall(r"(?m)^([\w.-]+)==([\w.]+)", lock.read_text())) <= found
    assert {"hpl", "openmpi", "ucx", "spack", "spack-packages"} <= {name for name, _ in found}
    refs = [each["bom-ref"] for each in listed["components"]]
    assert len(refs) == len(set(refs))


def test_a_package_of_the_system_is_marked():
    spec = '{"name": "gcc", "version": "12.2.0", "namespace": "builtin", "external": {}}'
    (listed,) = release.of_spack(f'{{"concrete_specs": {{"abc": {spec}}}}}', "spack.lock")
    assert {"name": "spack:external", "value": "true"} in listed["properties"]


def test_a_pin_without_a_checksum_has_none():
    (listed,) = release.of_programs("[hpl 2.3]\ncommit = abc\n")
    assert (listed["name"], listed["version"], listed["hashes"]) == ("hpl", "2.3", [])


def test_the_same_files_give_the_same_bytes(tmp_path: Path):
    archives = []
    for when in (1, 2):
        folder = tmp_path / str(when) / "pages"
        folder.mkdir(parents=True)
        for name in ("b", "a") if when == 1 else ("a", "b"):
            (folder / name).write_text(name)
            os.utime(folder / name, (when, when))
        archives.append(folder.with_suffix(".tar.gz"))
        release.write_archive(folder, archives[-1])
    first, second = (path.read_bytes() for path in archives)
    assert first == second
    (folder / "a").write_text("other")
    release.write_archive(folder, archives[0])
    assert archives[0].read_bytes() != first


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit, and the script."""
    tree = tmp_path / "tree"
    (tree / "ci").mkdir(parents=True)
    for name in ("release.py", "program_sources.py"):
        (tree / "ci" / name).write_text((ROOT / "ci" / name).read_text())
    (tree / ".gitignore").write_text("__pycache__/\n")
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", "first"),
    ):
        assert shell.run("git", "-C", tree, *words).returncode == 0
    return tree


def test_what_is_not_committed_is_no_release(checkout: Path):
    (checkout / "new").write_text("")
    done = shell.run(sys.executable, checkout / "ci/release.py")
    assert done.returncode == 2
    assert "commit first, or stash: ?? new" in done.stdout


def test_a_file_that_is_not_there_is_named(checkout: Path):
    done = shell.run(sys.executable, checkout / "ci/release.py", "build/no.sif")
    assert done.returncode == 2
    assert "build/no.sif does not exist" in done.stdout


@pytest.mark.long
def test_a_commit_gives_the_same_release_twice(tmp_path: Path):
    sums = []
    for name in ("one", "two"):
        tree = tmp_path / name
        assert shell.run("git", "clone", "-q", ROOT, tree).returncode == 0
        done = shell.run(sys.executable, tree / "ci/release.py")
        assert done.returncode == 0, done.stdout
        sums.append((tree / "build/release/SHA256SUMS").read_text())
    assert sums[0] == sums[1]
    assert len(sums[0].splitlines()) == 4
