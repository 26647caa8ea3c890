"""ci/bare-root.sh: a root of its own, which sees nothing of this machine but its registries."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from images import ROOT, run

SCRIPT = ROOT / "ci/bare-root.sh"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for namespaces and mounts"),
    pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="needs mmdebstrap on this machine"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    tar = folder / "bookworm.tar"
    subprocess.run([SCRIPT, "make", "bookworm", tar, "make"], check=True)
    subprocess.run([SCRIPT, "unpack", tar, folder / "root"], check=True)
    tar.unlink()
    return folder / "root"


def inside(root: Path, script: str) -> str:
    done = run(SCRIPT, "run", root, "sh", "-c", script, LEAKED="1")
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_it_has_what_was_asked_for_and_little_else(root: Path) -> None:
    said = inside(root, "command -v make; command -v python3 || true; dpkg-query -W | wc -l")
    make, count = said.split()
    assert make == "/usr/bin/make"
    assert 50 < int(count) < 120  # minbase has about a hundred packages


def test_neither_files_nor_variables_nor_processes_of_this_machine_are_seen(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").touch()
    said = inside(
        root,
        f'test ! -e {tmp_path}/mine && echo "LEAKED=$LEAKED $(hostname) $$ $HOME $(pwd);"; '
        "cat /proc/mounts",
    )
    first, mounts = said.split(";", 1)
    assert first == "LEAKED= fresh 1 /root /root"
    places = [line.split()[1] for line in mounts.split("\n") if line]
    allowed = ("/", "/proc", "/run", "/dev", "/sys")
    assert [p for p in places if f"/{p.split('/')[1]}" not in allowed] == []


def test_a_mount_made_in_it_is_not_seen_outside_and_its_processes_end_with_it(root: Path) -> None:
    inside(root, "mount -t tmpfs mine /mnt; setsid sleep inf & test -d /mnt")
    assert str(root) not in Path("/proc/mounts").read_text()
    ours = [p for p in Path("/proc").glob("[0-9]*") if _root_of(p) == root]
    assert ours == []


def _root_of(process: Path) -> Path | None:
    try:
        return (process / "root").readlink()
    except OSError:
        return None


def test_a_root_is_not_unpacked_over_another(root: Path) -> None:
    done = run(SCRIPT, "unpack", "some.tar", root)
    assert done.returncode == 1
    assert "is there already" in done.stdout
