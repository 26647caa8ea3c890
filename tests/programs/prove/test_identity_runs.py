"""The script that prints what a node is, on a tree with the form of ``/proc`` and ``/sys``."""

import subprocess

from shell import ROOT

from assay.judge import hardware
from assay.prove import identity

KNOWN = hardware(ROOT / "site-config" / "any")

FILES = {
    "proc/cpuinfo": "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\nmodel name : EPYC 7763\n"
    "stepping : 1\nflags : avx avx2\n\nvendor_id : AuthenticAMD\ncpu family : 25\n",
    "proc/meminfo": "MemTotal:       527948140 kB\nMemFree: 1 kB\n",
    "proc/driver/nvidia/gpus/0000:07:00.0/information": "Model: \t\t NVIDIA A100-SXM4-80GB\n",
    "sys/devices/system/cpu/present": "0-127\n",
    "sys/class/net/eth0/speed": "25000\n",
    "sys/class/dmi/id/sys_vendor": "HPE\n",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)\n",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
    "sys/devices/bridge/max_link_speed": "16.0 GT/s PCIe\n",
    "sys/devices/bridge/max_link_width": "16\n",
    "sys/devices/bridge/gpu/class": "0x030200\n",
    "sys/devices/bridge/gpu/max_link_speed": "32.0 GT/s PCIe\n",
    "sys/devices/bridge/gpu/max_link_width": "16\n",
    "sys/devices/bridge/nic/class": "0x020700\n",
}


def printed(root):
    script = ROOT / "src/assay/node/machine.sh"
    done = subprocess.run(["sh", script, root], capture_output=True, text=True, check=True)
    assert not done.stderr
    return identity.tree(done.stdout, str(root))


def test_the_script_prints_a_tree_that_is_read(tmp_path):
    for path, text in FILES.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    for name, address in (("gpu", "0000:07:00.0"), ("nic", "0000:08:00.0")):
        (bus / address).symlink_to(f"../../../devices/bridge/{name}")
    seen = printed(tmp_path)
    assert seen["/proc/meminfo"] == "MemTotal:       527948140 kB"
    assert "/sys/bus/pci/devices/0000:08:00.0/class" not in seen
    assert [f"{part.stated.role} {part.name}" for part in identity.parts(seen, KNOWN)] == [
        "processor epyc-milan", "gpu a100-sxm4-80gb", "link infiniband-hdr", "link ethernet-25g",
        "pcie pcie-4-x16",
    ]  # fmt: skip


def test_a_machine_that_states_nothing_is_no_error(tmp_path):
    assert printed(tmp_path) == {}


def test_this_machine_states_its_processor_and_its_memory():
    seen = printed("")
    assert "/proc/cpuinfo" in seen and "MemTotal" in seen["/proc/meminfo"]
    assert identity.parts(seen, KNOWN)
