"""The script that prints what a node is, on a tree with the form of ``/proc`` and ``/sys``."""

import subprocess

import pytest
import yaml
from bench import ROOT

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
    return identity.tree(done.stdout.replace(str(root), ""))


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


PLAIN = """
@rfm.simple_test
class Plain(Own):
    executable = "sleep"
    executable_opts = ["0"]
"""

EXTRAS = {"memory_bytes": 2**33, "memory_fraction": 0.02, "network_device": "lo"}


def run_plain(bench, calibrated_on="", **extras):
    bench.partition(launcher="replay", extras={**EXTRAS, **extras})
    bench.stack("any", ["hpl"])
    bench.record_all()
    calibrated = {
        "for": {"partition": "here", "test": "Plain"},
        "metrics": {"rate": {"value": 1.0, "unit": "MB/s", "lower": -0.1, "upper": 0.5}},
        "source": {"date": "2026-11-20", "n": 6, "where": "node01", "hardware": calibrated_on},
    }
    if calibrated_on:
        (bench.site / "calibrated.yaml").write_text(yaml.safe_dump({"references": [calibrated]}))
    return bench.own(PLAIN).case("Plain")


def test_a_healthy_node_is_in_the_record(bench):
    case = run_plain(bench)
    assert case.result == "pass"
    ((group),) = case.record["machine"]
    assert len(group["nodes"]) == 1
    assert group["parts"][0].startswith("processor ")


@pytest.mark.parametrize(
    ("extras", "says"),
    [
        ({"memory_bytes": 40 * 2**40}, "the partition says 40960.0 GiB of memory (memory_bytes), "),
        (
            {"hardware": {"processor": "a64fx"}},
            "the partition says processor a64fx, the node says ",
        ),
    ],
)
def test_a_node_that_is_not_what_the_site_says_is_red_by_name(bench, extras, says):
    case = run_plain(bench, **extras)
    (problem,) = [line for line in case.record["problems"] if says in line]
    assert case.result == "fail"
    assert case.record["accused"][0]["problem"] == problem


def test_references_that_other_hardware_gave_are_a_doubt(bench):
    case = run_plain(bench, calibrated_on="gpu h100-sxm5-80gb, processor sapphire-rapids")
    (doubt,) = case.record["doubts"]
    assert doubt.startswith("the references of this case were calibrated on gpu h100-sxm5-80gb, p")
    assert doubt.endswith(": calibrate again")
