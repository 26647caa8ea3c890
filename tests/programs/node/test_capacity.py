"""The file system of a directory: recorded lists of mounts, and a chroot that shows no mounts."""

import os
import shutil
from pathlib import Path

import pytest
import shell

from assay.node import capacity

#: /proc/self/mountinfo of a node, shortened; a blank in a path is \040.
LISTING = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
91 27 0:44 / /lustre rw,noatime shared:9 master:2 - lustre 10.0.0.1@tcp:/fs rw,flock
93 91 8:17 / /lustre/my\040disk ro,nosuid - xfs /dev/sdb1 rw,attr2
94 27 0:51 / /data rw,relatime - nfs4 server:/a rw,vers=4.2
95 94 0:52 / /data rw,relatime - tmpfs tmpfs rw,size=1024k
"""

#: The same in a chroot whose root is a directory. The mount that holds this root is not listed.
CHROOTED = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
95 94 0:52 / /dev/shm rw,relatime - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "mount", "kind"),
    [
        ("/home/me", "/", "ext4"),
        ("/lustre", "/lustre", "lustre"),
        ("/lustre/work", "/lustre", "lustre"),
        ("/lustres", "/", "ext4"),
        ("/lustre/my disk/a", "/lustre/my disk", "xfs"),
        ("/data/a", "/data", "tmpfs"),
    ],
)
def test_the_longest_and_then_the_last_mount_that_covers_a_path_counts(path, mount, kind):
    found = capacity.mount_of(path, LISTING)
    assert (found["mount"], found["type"]) == (mount, kind)


def test_options_are_those_of_the_mount_and_of_its_file_system():
    assert capacity.mount_of("/", LISTING)["options"] == "rw,relatime,errors=remount-ro"
    assert capacity.mount_of("/lustre/my disk", LISTING)["options"] == "ro,nosuid,attr2"
    assert capacity.mount_of("/", LISTING)["source"] == "/dev/vda"


@pytest.mark.parametrize("listing", [CHROOTED, "", "torn line\n27 1 254:0 /"])
def test_without_a_mount_that_covers_the_path_the_kernel_says_the_type(
    listing, tmp_path, monkeypatch
):
    known = capacity.file_system(str(tmp_path))["type"]
    monkeypatch.setattr(capacity.answers, "read", lambda path: listing)
    found = capacity.file_system(str(tmp_path))
    assert (found["mount"], found["type"]) == (None, known)
    assert found["size_bytes"] > 0


def test_a_file_system_of_an_unknown_number_is_not_guessed(monkeypatch):
    monkeypatch.setattr(capacity.answers, "read", lambda path: "")
    assert capacity.file_system("/proc")["type"] is None


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a chroot")
def test_in_a_chroot_whose_root_is_no_mount_point(tmp_path):
    python = shutil.which("python3", path="/usr/bin")
    if not python or not shutil.which("unshare"):
        pytest.skip("needs /usr/bin/python3 and unshare")
    script = Path(capacity.__file__)
    call = "import capacity as p; f = p.file_system('/scratch'); print(f['type'], f['mount'])"
    inside = ["usr", "bin", "lib", "lib64", "proc", "code"]
    for name in [*inside, "scratch"]:
        (tmp_path / name).mkdir()
    binds = [
        f"mount --bind {script.parent if name == 'code' else '/' + name} {tmp_path / name}"
        for name in inside
        if name == "code" or Path("/", name).exists()
    ]
    chroot = f'PYTHONPATH=/code chroot {tmp_path} {python} -B -c "{call}"'
    done = shell.run("unshare", "--mount", "sh", "-c", " && ".join([*binds, chroot]))
    assert done.returncode == 0, done.stdout
    assert done.stdout.split() == [capacity.file_system(str(tmp_path))["type"], "None"]
