"""containers/kit.sh: the suite of an image with a Python of its own, on a machine without one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import shell
from shell import ROOT

#: The programs of the machine that a kit needs to start. There is no Python among them.
NEEDED = "bash cat dirname mv readlink sh sha256sum"

#: What a run of the suite needs of Python's own modules.
WORKS = (
    "import ctypes, json, sqlite3, ssl, sys, assay, reframe; print(sys.executable, assay.__file__)"
)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit of a small suite: two packages in the place of ReFrame and the library."""
    suite = tmp_path_factory.mktemp("image") / "assay"
    kit = tmp_path_factory.mktemp("site") / "a kit"
    for name in ("ci", "containers", "requirements"):
        shutil.copytree(ROOT / name, suite / name)
    shutil.copy(ROOT / "pyproject.toml", suite)
    (suite / "src/assay").mkdir(parents=True)
    (suite / "src/assay/__init__.py").write_text("def main(): print('ASSAY')\n")
    shutil.copytree(suite, kit)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", suite / ".venv"], check=True)
    (packages,) = suite.glob(".venv/lib/python*/site-packages")
    (packages / "reframe.py").write_text("")
    (packages / "__editable__.assay_hpc-1.0.0.pth").write_text(f"{suite}/src\n")
    assay = suite / ".venv/bin/assay"
    assay.write_text(f"#!{suite}/.venv/bin/python3\nimport assay\nassay.main()\n")
    assay.chmod(0o755)
    done = shell.run("bash", suite / "containers/kit.sh", kit)
    assert done.returncode == 0, done.stdout
    shutil.rmtree(suite)  # the image is not there when the kit is used
    return kit


def test_it_runs_without_a_python_of_the_machine(kit: Path, tmp_path: Path) -> None:
    path = shell.tools(tmp_path / "bin", NEEDED)
    done = shell.run(kit / ".venv/bin/python", "-c", WORKS, path=path)
    assert done.stdout == f"{kit}/.venv/bin/python {kit}/src/assay/__init__.py\n"
    assert shell.run(kit / ".venv/bin/assay", path=path).stdout == "ASSAY\n"
    # What it starts has the libraries of the machine.
    child = "import subprocess as s; s.run(['sh', '-c', 'echo [$LD_LIBRARY_PATH]'], check=True)"
    assert shell.run(kit / ".venv/bin/python", "-c", child, path=path).stdout == "[]\n"


def test_its_loader_and_libraries_are_its_own(kit: Path) -> None:
    maps = "print(open('/proc/self/maps').read())"
    done = shell.run(kit / ".venv/bin/python", "-c", maps)
    mapped = {line.split(None, 5)[-1] for line in done.stdout.splitlines() if ".so" in line}
    assert mapped
    assert [each for each in mapped if not each.startswith(str(kit))] == []


def test_make_venv_takes_it_where_it_was_moved_to(kit: Path, tmp_path: Path) -> None:
    path = shell.tools(tmp_path / "bin", NEEDED)
    moved = tmp_path / "moved"
    shutil.copytree(kit, moved, symlinks=True)
    done = shell.run("bash", "ci/setup-venv.sh", cwd=moved, path=path)
    assert (done.returncode, done.stdout) == (0, "setup-venv: .venv of the image is ready\n")
    assert shell.run("bash", "ci/setup-venv.sh", cwd=moved, path=path).stdout == ""
    base = "import sys; print(sys.base_prefix)"
    done = shell.run(moved / ".venv/bin/python", "-c", base, path=path)
    assert done.stdout == f"{moved}/.venv/python\n"
    with (moved / "requirements/run.lock").open("a") as file:
        file.write("# another\n")
    done = shell.run("bash", "ci/setup-venv.sh", cwd=moved, path=path)
    assert done.returncode == 1
    assert "is not as the image had it" in done.stdout
