"""ci/find-python.sh, ci/setup-venv.sh and ci/fetch-osu-py.sh."""

from __future__ import annotations

import hashlib
import io
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from shell import ROOT, program, run


def older(directory: Path, name: str, version: tuple[int, int, int]) -> Path:
    """This Python with another version number in `sys.version_info` and in --version."""
    return program(
        directory,
        name,
        f'[ "$1" = --version ] && echo "Python {".".join(map(str, version))}" && exit\n'
        f'exec "{sys.executable}" -c "import sys; sys.version_info = {version}; exec(sys.argv[1])"'
        ' "$2"',
    )


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"python3": (3, 12, 1), "python3.13": (3, 13, 0)}, "python3"),
        ({"python3": (3, 14, 0)}, "python3"),
        ({"python3": (3, 9, 18), "python3.11": (3, 11, 7)}, "python3.11"),
        ({"python3": (3, 9, 18)}, None),
        ({"python3": (3, 6, 8)}, None),
        ({}, None),
    ],
)
def test_choice_of_python(
    bare: Path, pythons: dict[str, tuple[int, int, int]], chosen: str | None
) -> None:
    (bare / "python3").unlink()
    for name, version in pythons.items():
        older(bare, name, version)
    done = run("bash", ROOT / "ci/find-python.sh", path=bare)
    if chosen:
        assert (done.returncode, done.stdout) == (0, f"{bare}/{chosen}\n")
    else:
        assert done.returncode == 1
        assert len(done.stdout.splitlines()) == 1, done.stdout
        assert "no Python 3.10 or newer" in done.stdout


def test_named_python_is_not_replaced_by_another(bare: Path) -> None:
    named = older(bare, "old", (3, 8, 2))
    done = run("bash", ROOT / "ci/find-python.sh", path=bare, PYTHON=named)
    assert done.returncode == 1
    assert f"{named} is Python 3.8.2" in done.stdout
    done = run("bash", ROOT / "ci/find-python.sh", path=bare, PYTHON="/not/here")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "find-python: no Python 3.10 or newer: /not/here is no program; "
        "name one that is by PYTHON=/path/to/python3"
    ]


def test_python_without_ensurepip_is_one_line(bare: Path, checkout: Path) -> None:
    shutil.copytree(ROOT / "requirements", checkout / "requirements")
    program(bare, "python3", f'exec "{sys.executable}" -c "{WITHOUT_ENSUREPIP}" "$2"')
    done = run("bash", checkout / "ci/setup-venv.sh", path=bare)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1, done.stdout
    assert "install python3-venv" in done.stdout
    assert not (checkout / ".venv").exists()


WITHOUT_ENSUREPIP = "import sys; sys.modules['ensurepip'] = None; exec(sys.argv[1])"


def source_distribution(directory: Path) -> str:
    """A source distribution with two programs below demo/; returns its sha256."""
    directory.mkdir()
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: mpi4py\nVersion: 4.1.2\n",
        "setup.py": "from setuptools import setup\nsetup(name='mpi4py', version='4.1.2')\n",
        "demo/osu_bw.py": "# bandwidth\n",
        "demo/osu_latency.py": "# latency\n",
        "demo/helloworld.py": "# not ours\n",
    }
    path = directory / "mpi4py-4.1.2.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"mpi4py-4.1.2/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def offline(checkout: Path, tmp_path: Path) -> tuple[Path, str, dict[str, object]]:
    """A checkout with a Python in .venv; the sha256 of the file for pip; variables for pip."""
    sha256 = source_distribution(tmp_path / "dist")
    program(checkout / ".venv/bin", "python", f'exec "{sys.executable}" "$@"')
    variables = {"PIP_NO_INDEX": 1, "PIP_FIND_LINKS": tmp_path / "dist", "PIP_NO_CACHE_DIR": 1}
    return checkout, sha256, variables


def test_python_ports_arrive_whole_and_once(offline: tuple[Path, str, dict[str, object]]) -> None:
    checkout, sha256, pip = offline
    (checkout / "ci/osu-py.txt").write_text(f"mpi4py==4.1.2 --hash=sha256:{sha256}\n")
    first = run("bash", checkout / "ci/fetch-osu-py.sh", **pip)
    assert first.returncode == 0, first.stdout
    cache = checkout / ".cache"
    assert [p.name for p in cache.iterdir()] == ["osu-py"]
    names = sorted(p.name for p in (cache / "osu-py").iterdir())
    assert names == ["osu_bw.py", "osu_latency.py", "pin.txt"]
    second = run("bash", checkout / "ci/fetch-osu-py.sh", PIP_NO_INDEX=1)
    assert (second.returncode, second.stdout) == (0, "")


def test_wrong_hash_is_one_line_and_leaves_nothing(
    offline: tuple[Path, str, dict[str, object]],
) -> None:
    checkout, sha256, pip = offline
    wrong = "0" * 64
    (checkout / "ci/osu-py.txt").write_text(f"mpi4py==4.1.2 --hash=sha256:{wrong}\n")
    done = run("bash", checkout / "ci/fetch-osu-py.sh", **pip)
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        f"fetch-osu-py: refused: what came has sha256 {sha256}, ci/osu-py.txt expects {wrong}"
    ]
    assert list((checkout / ".cache").iterdir()) == []


def test_pin_without_hash_is_refused(offline: tuple[Path, str, dict[str, object]]) -> None:
    checkout, _, pip = offline
    (checkout / "ci/osu-py.txt").write_text("mpi4py==4.1.2\n")
    done = run("bash", checkout / "ci/fetch-osu-py.sh", **pip)
    assert done.returncode == 1, done.stdout
    assert list((checkout / ".cache").iterdir()) == []
