"""near-device.sh on a made folder of devices: which processors it chooses, and what it refuses."""

import os

import pytest
import shell
from bench import ROOT

from studies.doc004 import nearness

SCRIPT = ROOT / "studies/doc004/near-device.sh"

#: Device -> NUMA node, processors near it. No machine of the tests has two devices of verbs.
DEVICES = {"mlx5_0": ("0", "0-3,8"), "mlx5_1": ("1", "4-7"), "mlx5_2": ("-1", "0-8")}


@pytest.fixture
def start(tmp_path):
    """Runs the script with these processors allowed, which this machine need not have."""
    for name, (node, cpus) in DEVICES.items():
        folder = tmp_path / "sys/class/infiniband" / name / "device"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(node + "\n")
        (folder / "local_cpulist").write_text(cpus + "\n")

    def run(*arguments, allowed="0-8"):
        (tmp_path / "status").write_text(f"Cpus_allowed_list:\t{allowed}\n")
        script = SCRIPT.read_text().replace("/proc/self/status", str(tmp_path / "status"))
        made = tmp_path / SCRIPT.name
        made.write_text(script)
        made.chmod(0o755)
        given = {**os.environ, "ASSAY_SYSFS": str(tmp_path / "sys")}
        return shell.run(made, *arguments, cwd=tmp_path, **given)

    return run


@pytest.fixture
def software(tmp_path):
    """A device of soft-RoCE, on a network card of virtio near processors 4 to 7."""
    (tmp_path / "sys/class/infiniband/rxe1").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband/rxe1/parent").write_text("eth1\n")
    bus = tmp_path / "sys/devices/81:00.0"
    (bus / "virtio1").mkdir(parents=True)
    (bus / "numa_node").write_text("1\n")
    (bus / "local_cpulist").write_text("4-7\n")
    card = tmp_path / "sys/class/net/eth1"
    card.mkdir(parents=True)
    (card / "device").symlink_to(bus / "virtio1")


def chosen(tmp_path):
    (path,) = tmp_path.glob(nearness.FILES)
    text = path.read_text()
    return text.split("chosen ")[1].split()[0], nearness.parse(text)


def test_near_are_the_allowed_processors_that_the_kernel_names(start, tmp_path):
    # Processor 0 exists everywhere, so taskset can bind to it.
    done = start(
        "near", "mlx5_0:1,mlx5_1:1", "grep", "Cpus_allowed_list", "/proc/self/status", allowed="0,4"
    )
    assert done.stdout.split() == ["Cpus_allowed_list:", "0"]
    cpus, place = chosen(tmp_path)
    assert cpus == "0"
    assert nearness.mapping(place) == {"0-3,8": "mlx5_0:1", "4-7": "mlx5_1:1"}


def test_far_are_the_others(start, tmp_path):
    done = start("far", "mlx5_1:1", "true", allowed="0,4-7")
    assert done.returncode == 0
    assert chosen(tmp_path)[0] == "0"


@pytest.mark.parametrize("device", ["rxe1:1", "eth1"])
def test_a_device_of_software_is_where_its_network_card_is(start, tmp_path, software, device):
    assert start("far", device, "true", allowed="0,4-7").returncode == 0
    cpus, place = chosen(tmp_path)
    assert (cpus, nearness.mapping(place)) == ("0", {"4-7": device})


def test_free_binds_nothing_and_passes_the_exit_code_on(start, tmp_path):
    assert start("free", "mlx5_0:1", "sh", "-c", "exit 7").returncode == 7
    assert chosen(tmp_path)[0] == "0-8"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("far", "mlx5_0:1", "0-3"), "has no processors far of mlx5_0:1: near it are 0-3,8"),
        (("near", "mlx5_1:1", "0-3"), "has no processors near of mlx5_1:1: near it are 4-7"),
        (("near", "mlx5_2:1", "0-8"), "does not say which processors are near mlx5_2:1"),
        (("near", "mlx5_9:1", "0-8"), "does not say which processors are near mlx5_9:1"),
        (("left", "mlx5_0:1", "0-8"), "no side 'left'"),
    ],
)
def test_what_is_not_possible_is_said_before_anything_runs(start, tmp_path, asked, said):
    side, device, allowed = asked
    done = start(side, device, allowed=allowed)
    assert done.returncode == 1
    assert said in done.stdout
    assert start(side, device, "touch", "ran", allowed=allowed).returncode == 1
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob(nearness.FILES))
