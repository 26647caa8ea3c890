"""The seal: it shows changes after solving, which Spack does not notice; how it is written."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from spack_copy import REFERENCE, Copy, node_of


@pytest.mark.parametrize(
    "name",
    [
        "spack.yaml",
        f"site-config/{REFERENCE}/spack/packages.yaml",
        "site-config/common/spack/concretizer.yaml",
        "spack-repo/spack_repo/assay/repo.yaml",
        "spack-repo/spack_repo/assay/packages/npb_btio/package.py",
    ],
)
def test_manifest_include_or_recipe_changed_after_locking(copy: Copy, name: str) -> None:
    path = copy.root / name
    path.write_text(path.read_text() + "# and more\n")
    assert copy.faults() == [
        f"spack.lock.seal.yaml: files: {name} changed since spack.lock was solved; "
        f"make lock SITE={REFERENCE}"
    ]


def test_files_that_came_or_went_after_locking(copy: Copy) -> None:
    packages = copy.root / "spack-repo/spack_repo/assay/packages"
    (packages / "npb_btio/fix.patch").touch()
    shutil.rmtree(packages / "hpcc")
    (packages / "hpl/__pycache__").mkdir()
    (packages / "hpl/__pycache__/package.pyc").touch()
    come, gone = sorted(copy.faults(), reverse=True)
    assert "packages/npb_btio/fix.patch is new since" in come
    assert "packages/hpcc/package.py is gone since" in gone


def test_a_recipe_that_cannot_be_read(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (fault,) = copy.faults()
    assert fault.endswith("spack.lock: Permission denied")


def test_a_required_version_changed_after_locking(copy: Copy) -> None:
    copy.edit("site-config/common/spack/packages.yaml", '"@2.3"', '"@2.2"')
    requirement, sealed = sorted(copy.faults())
    assert "packages:hpl:require: @2.2 does not hold" in requirement
    assert "common/spack/packages.yaml changed since" in sealed


def test_sealing_what_is_sealed_changes_nothing(copy: Copy) -> None:
    path = copy.path("spack.lock.seal.yaml")
    before = path.read_bytes()
    assert copy.run("seal") == (0, [])
    assert path.read_bytes() == before


def test_a_seal_is_written_anew(copy: Copy) -> None:
    path = copy.path("spack.lock.seal.yaml")
    before = yaml.safe_load(path.read_text())
    path.unlink()
    assert "make lock SITE=" in copy.faults()[0]
    assert copy.run("seal", "--site", REFERENCE) == (0, [])
    after = yaml.safe_load(path.read_text())
    assert {**after, "date": before["date"]} == before
    assert copy.run("check") == (0, [])
    copy.edit("spack-repo/spack_repo/assay/packages/hpcc/package.py", "\n", "\n\n")
    assert copy.run("seal") == (0, [])
    assert copy.run("check") == (0, [])
    assert not [file for file in copy.root.iterdir() if file.name.startswith(".")]


def test_a_lock_with_faults_is_not_sealed(copy: Copy) -> None:
    document = copy.lock()
    node_of(document, "hpl")["version"] = "2.2"
    copy.path("spack.lock").write_text(json.dumps(document))
    before = copy.path("spack.lock.seal.yaml").read_bytes()
    code, lines = copy.run("seal", "--site", REFERENCE)
    assert code == 1
    assert lines[-1] == "assay lock: spack.lock.seal.yaml: not written: the lock has faults"
    assert copy.path("spack.lock.seal.yaml").read_bytes() == before


def test_a_full_disk_leaves_the_old_seal(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    copy.edit("spack-repo/spack_repo/assay/packages/hpcc/package.py", "\n", "\n\n")
    before = copy.path("spack.lock.seal.yaml").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    code, lines = copy.run("seal", "--site", REFERENCE)
    assert code == 1
    (line,) = lines
    assert line.startswith("assay lock: spack.lock.seal.yaml: No space left on device;")
    assert copy.path("spack.lock.seal.yaml").read_bytes() == before
    assert not [file for file in copy.root.iterdir() if file.name.startswith(".")]
