"""The Spack stack with the real Spack.

Needs $SPACK_ROOT and $ASSAY_SPACK_PACKAGES at the pinned commits, and $SPACK_PYTHON with clingo.
Skips without them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from assay.locks import views
from assay.locks.lockfile import Lock

ROOT = Path(__file__).resolve().parents[2]
NEEDS = ("SPACK_ROOT", "ASSAY_SPACK_PACKAGES", "SPACK_PYTHON")
ABSENT = [name for name in NEEDS if name not in os.environ]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"needs Spack: {', '.join(ABSENT)} not set"),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that the scripts read, in a place where the scripts may write."""
    copied = tmp_path / "checkout"
    copied.mkdir()
    for name in ("ci", "site-config", "spack-repo"):
        ignored = shutil.ignore_patterns(".spack-env", "__pycache__")
        shutil.copytree(ROOT / name, copied / name, ignore=ignored)
    for file in ROOT.glob("spack.*"):
        shutil.copy(file, copied)
    return copied


def run(
    checkout: Path, *command: str | Path, **variables: object
) -> subprocess.CompletedProcess[str]:
    keep = ("PATH", "HOME", *NEEDS)
    return subprocess.run(
        list(map(str, command)),
        cwd=checkout,
        env={
            **{name: os.environ[name] for name in keep},
            "ASSAY_SPACK_HOME": str(checkout / "home"),
            **{k: str(v) for k, v in variables.items()},
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )


def spack(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(
        checkout,
        Path(os.environ["SPACK_ROOT"]) / "bin/spack",
        *("--color", "never", "-e", str(checkout), *arguments),
        SPACK_DISABLE_LOCAL_CONFIG=1,
        SPACK_USER_CACHE_PATH=checkout / "home/user-cache",
    )


def test_recipes_pass_spacks_audit(checkout: Path) -> None:
    recipes = checkout.glob("spack-repo/spack_repo/assay/packages/*/package.py")
    names = [path.parent.name.replace("_", "-") for path in recipes]
    done = spack(checkout, "audit", "packages", *names)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_whole_reference_lock_makes_views_and_environment_files(checkout: Path) -> None:
    done = run(checkout, "ci/spack-install.sh", "--fake", SITE="ibisco")
    assert done.returncode == 0, done.stdout + done.stderr
    lock = Lock.load(checkout / "spack.lock", "spack.lock")
    for view in yaml.safe_load((checkout / "spack.yaml").read_text())["spack"]["view"]:
        frozen = json.loads((checkout / f"home/env/ibisco.{view}.json").read_text())
        # A fake package has one program, with the name of the package. Spack links no externals.
        programs = {each.name for folder in frozen["path"] for each in Path(folder).iterdir()}
        held = views.packages(lock, checkout / "spack.yaml", view)
        assert programs == {node["name"] for node in held if "external" not in node}, view


def test_a_machine_without_the_externals_is_told_so(checkout: Path) -> None:
    done = run(checkout, "ci/spack-install.sh", SITE="h100")
    assert done.returncode == 1
    assert "cuda@12.8.1: /usr/local/cuda-12.8 does not exist here" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which root may")
def test_a_full_disk_is_called_so(checkout: Path) -> None:
    home = checkout / "home"
    home.mkdir()
    # The mount is in its own mount namespace, so it disappears with the last process in it.
    done = run(
        checkout,
        *("unshare", "-m", "sh", "-c"),
        f"mount -t tmpfs -o size=200k none {home} && exec ci/spack-install.sh --fake",
        SITE="debian12",
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no mounts here: " + done.stderr.splitlines()[0])
    assert done.returncode == 1
    assert "full" in done.stderr.splitlines()[-1] and "ASSAY_SPACK_HOME" in done.stderr
