"""The kernel of virtual machines, found in its cache; and the device that each rank gets there."""

import hashlib
import os
import shutil

import pytest
import shell
from bench import ROOT

KERNEL, PROLOG = ROOT / "lab/vcluster/vm-kernel.sh", ROOT / "lab/vcluster/vm-task-prolog"


def folder(home):
    """Where the kernel of this checkout is kept."""
    text = KERNEL.read_text()
    version = text.split("\nversion=")[1].split()[0]
    made_of = (ROOT / "lab/vcluster/vm-init").read_bytes() + KERNEL.read_bytes()
    return home / f"{version}-{hashlib.sha256(made_of).hexdigest()[:12]}"


def test_a_kernel_in_the_cache_is_found_and_another_one_is_not(tmp_path):
    (tmp_path / "lab/vcluster").mkdir(parents=True)
    for name in ("vm-kernel.sh", "vm-init"):
        shutil.copy(ROOT / "lab/vcluster" / name, tmp_path / "lab/vcluster")
    script, home = tmp_path / "lab/vcluster/vm-kernel.sh", tmp_path / ".cache/vm-kernel"
    made = folder(home)
    made.mkdir(parents=True)
    (made / "initrd").touch()
    done = shell.run(script, "--no-build", apart=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{made}\n", "")
    made.rename(home / (made.name[:-1] + "x"))
    done = shell.run(script, "--no-build", apart=True)
    assert (done.returncode, done.stdout) == (1, "")
    said = f"vm-kernel: none of this version in {home}: type lab/vcluster/vm-kernel.sh\n"
    assert done.stderr == said


@pytest.fixture
def task(tmp_path):
    """What the prolog says to a task of node02 on this processor, on made devices."""
    processor = min(os.sched_getaffinity(0))
    near = {"rxe0": str(processor), "rxe1": str(processor + 1)}
    for rail, (device, cpus) in enumerate(near.items()):
        for kind, name, file, text in (
            ("infiniband", device, "parent", f"eth{rail}"),
            ("net", f"eth{rail}", "local_cpulist", cpus),
        ):
            made = tmp_path / "sys/class" / kind / name
            made.mkdir(parents=True)
            (made / file).write_text(text + "\n")
        (made / "device").mkdir()  # the device of virtio is below that of the bus
    (tmp_path / "run").mkdir()

    def run(**variables):
        given = {
            "SLURM_CONF": str(tmp_path / "etc/slurm.conf"),
            "SLURMD_NODENAME": "node02",
            "ASSAY_SYSFS": str(tmp_path / "sys"),
            "UCX_NET_DEVICES": "rxe0:1,rxe1:1",
            **variables,
        }
        done = shell.run("taskset", "-c", str(processor), str(PROLOG), apart=True, **given)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


def test_a_task_gets_the_device_of_its_socket(task, tmp_path):
    assert task(UCX_MAX_RNDV_RAILS="1") == "export UCX_NET_DEVICES=rxe0:1\n"
    (tmp_path / "run/far-device.node01").touch()
    assert task(UCX_MAX_RNDV_RAILS="1") == "export UCX_NET_DEVICES=rxe0:1\n"
    (tmp_path / "run/far-device.node02").touch()
    assert task(UCX_MAX_RNDV_RAILS="1") == "export UCX_NET_DEVICES=rxe1:1\n"


def test_a_task_that_uses_several_devices_or_names_one_keeps_them(task):
    assert task(UCX_MAX_RNDV_RAILS="2") == ""
    assert task() == ""
    one = task(UCX_MAX_RNDV_RAILS="1", UCX_NET_DEVICES="rxe1:1")
    assert one == ""
