"""EachGpu: its program on emulated GPUs, and the test under ReFrame, with each fault.

What is said of rates is tested on recorded outputs: an emulated GPU is as slow as its machine.
"""

import json
import os
import subprocess
import sys

import emulation
import pytest
from bench import ROOT
from each_gpu_fake import first, instead, recorded, slower
from nodes import LAUNCHER, need_namespaces

from assay.gpu.parse import each_gpu

SCRIPT = ROOT / "src/assay/gpu/node/gpus.py"

#: A model of the links: without latency, each with this rate [B/s].
RATE = 1e9
LINKS = f"nvlink=0:{RATE:g},d2d=0:{RATE:g},h2d=0:{RATE:g},d2h=0:{RATE:g}"

#: The driver calls an emulated GPU so.
NAME = "EMULATED GPU, GPU-67707565-6d75-"


@pytest.fixture
def gpus(built):
    """The output of the program on emulated GPUs with these variables, and its exit code."""

    def run(size=1 << 16, repeats=2, **variables):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(size), str(repeats)],
            env={**os.environ, **environment(built), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout, done.returncode

    return run


def environment(built):
    return {
        "PATH": f"{built}/bin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{built}/lib",
        "GPUEMU_LINKS": emulation.LINKS,
    }


def test_the_program_measures_every_way_and_says_on_what(gpus):
    said, code = gpus(GPUEMU_DEVICES="3")
    parsed = each_gpu.parse_each_gpu(said)
    assert code == 0 and parsed.sound, parsed.problems
    assert len(parsed.rows) == 3 * 4
    assert {gpu["name"] for gpu in parsed.facts["gpus"]} == {"EMULATED GPU"}
    assert {gpu["driver"] for gpu in parsed.facts["gpus"]} == {"0.0.emulated"}
    assert {row["joined"] for row in parsed.rows if row["copy"] == "d2d"} == {"NV1"}


def test_the_bytes_take_the_way_that_the_output_claims(gpus, tmp_path):
    gpus(GPUEMU_DEVICES="2", GPUEMU_TRACE=str(tmp_path))
    assert "nvlink" in ways(tmp_path)


def test_without_access_the_bytes_go_through_the_host(gpus, tmp_path):
    said, _ = gpus(GPUEMU_DEVICES="2", GPUEMU_FAULT="p2p", GPUEMU_TRACE=str(tmp_path))
    assert {
        row["access"] for row in each_gpu.parse_each_gpu(said).rows if row["copy"] == "d2d"
    } == {0}
    assert "nvlink" not in ways(tmp_path)


def ways(folder):
    (file,) = [path for path in folder.glob("*.trace") if "h2d" in path.read_text()]
    return {line.split("\t")[0] for line in file.read_text().splitlines()[1:]}


@pytest.mark.parametrize(
    ("fault", "lines", "said"),
    [
        ("corrupt:1", 1, "GPU 1 ({}...): data arrived wrong in 6 of its 6 ways"),
        ("corrupt:0-2", 2, "GPU 2 ({}...): data arrived wrong, first at byte 32768"),
    ],
)
def test_a_wrong_byte_is_seen(gpus, fault, lines, said):
    parsed = each_gpu.parse_each_gpu(gpus(GPUEMU_DEVICES="3", GPUEMU_FAULT=fault)[0])
    begin, end = said.split("...")
    assert any(begin.format(NAME) in line and end in line for line in parsed.problems)
    assert len(parsed.problems) == lines


def test_a_copy_takes_at_least_the_time_of_the_model_and_twice_that_on_a_slow_gpu(gpus):
    said, _ = gpus(GPUEMU_DEVICES="3", GPUEMU_FAULT="slow:1", GPUEMU_LINKS=LINKS)
    for line in map(json.loads, said.splitlines()):
        if "copy" in line:
            factor = 2 if 1 in (line["from"], line["to"]) else 1
            least = factor * line["copies"] * (1 << 16) / RATE
            # The program prints six digits.
            assert min(line["gpu_seconds"]) > 0.9999 * least, line


def test_the_program_says_each_way_before_it_measures_it(gpus):
    said = [json.loads(line) for line in gpus(GPUEMU_DEVICES="3")[0].splitlines()]
    pairs = [(one, two) for one, two in zip(said, said[1:]) if "next" in one]
    assert len(pairs) == 3 * 4
    assert all(one["next"] == [two["from"], two["to"]] for one, two in pairs)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GPUEMU_FAULT": "driver"}, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        ({"GPUEMU_FAULT": "one-gpu"}, "): the driver gave the context of another GPU"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "cuInit: CUDA_ERROR_NO_DEVICE (100)"),
        ({"LD_LIBRARY_PATH": ""}, "libcuda.so.1"),
    ],
)
def test_a_driver_that_fails_is_named(gpus, variables, said):
    output, code = gpus(**variables)
    assert code == 1
    assert output.splitlines()[-1].startswith(f"{os.uname().nodename}: ")
    assert said in output.splitlines()[-1]


def test_nvidia_smi_that_fails_leaves_the_kind_of_the_links_open(gpus):
    said, code = gpus(GPUEMU_DEVICES="2", GPUEMU_FAULT="nvml")
    parsed = each_gpu.parse_each_gpu(said)
    assert code == 0 and parsed.sound
    assert {row["joined"] for row in parsed.rows} == {""}
    assert {gpu["driver"] for gpu in parsed.facts["gpus"]} == {"unknown"}


def of_one_node(bench, stacks, number=4, **extras):
    """Runs EachGpu on one node, on each of these stacks: its name, and its variables."""
    bench.partition(
        launcher="replay",
        features=["intra-node", "gpu", "cuda", "nvlink"],
        devices=[{"type": "gpu", "num_devices": number}],
        extras={"options": emulation.EACH_GPU, **extras},
    )
    bench.record_all()
    for name, variables in stacks.items():
        bench.stack(name, ["ucx"])
        bench.environments[-1]["env_vars"] = [list(each) for each in variables.items()]
    return bench.run("-n", "EachGpu", path="reframe/network/each_gpu.py")


def printed(bench, name, others, **nodes):
    """The variables of a stack on which the program of a node prints these outputs."""
    return {"PATH": f"{instead(bench, name, others, **nodes)}:{os.environ['PATH']}"}


@pytest.mark.slow
def test_the_program_runs_under_reframe_and_a_fault_without_a_rate_is_named(bench, built):
    # The machine may be busy, so any copy may be slow: EachGpu may accuse a healthy GPU, too.
    live = {**environment(built), "GPUEMU_LINKS": ""}
    faults = {"healthy": "", "wrong": "corrupt:3", "access": "p2p:0-2", "driver": "driver"}
    stacks = {name: {**live, "GPUEMU_FAULT": fault} for name, fault in faults.items()}
    small = {"options": {**emulation.EACH_GPU, "EachGpu.size": 1 << 16}}
    run = of_one_node(bench, stacks, **small)
    healthy = run.case("EachGpu", "healthy")
    assert "arrived wrong" not in healthy.reason and "cannot access" not in healthy.reason
    (node,) = healthy.record["gpus"]["nodes"].values()
    assert len(node["gpus"]) == 4 and node["drivers"] == ["0.0.emulated"]
    assert all(NAME in gpu for gpu in node["gpus"])
    wrong = (f"GPU 3 ({NAME}", "data arrived wrong in 8 of its 8 ways")
    run.says("EachGpu", *wrong, environ="wrong")
    apart = (f"GPU 0 ({NAME}", f" and GPU 2 ({NAME}", "cannot access each other's memory")
    run.says("EachGpu", *apart, environ="access")
    run.says("EachGpu", "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", environ="driver")


#: Output -> what must be in the reason, for which GPUs; empty if the test passes.
SAID = {
    "healthy": [],
    "nvlink-and-pcie": [],
    "slow-pair": ["GPU 2 ({}", " -> GPU 3 ({}", ": this way 0."],
    "slow-gpu": ["GPU 1 ({}", ": host to device 0.", "3 others of the"],
    "no-access": [
        "GPU 0 ({}", " and GPU 2 ({}", "cannot access each other's memory, 10 others of the node"
    ],
    "no-access-at-all": [
        "6 of the 6 pairs", "GPU 0 ({}", " and GPU 1 ({}", "joined by NV1, but cannot access"
    ],
    "corrupt": ["GPU 3 ({}", "data arrived wrong in 8 of its 8 ways", " (3 of 3 turns)"],
    "lost": ["3 of 4 GPUs were measured"],
}  # fmt: skip


@pytest.mark.slow
def test_each_fault_is_named_with_its_gpus_and_healthy_ones_pass(bench):
    texts = {name: recorded(name) for name in SAID if name != "lost"}
    texts["lost"] = first(3, texts["healthy"])
    run = of_one_node(bench, {name: printed(bench, name, text) for name, text in texts.items()})
    for name, said in SAID.items():
        outcome = run.says("EachGpu", *(text.format(NAME) for text in said), environ=name)
        named = {n for n in range(4) if f"GPU {n} (" in outcome.reason}
        assert named == {n for n in range(4) if any(f"GPU {n} (" in text for text in said)}, name
    assert run.case("EachGpu", "slow-gpu").reason.count(" -> ") == 0
    healthy = run.case("EachGpu", "healthy").record
    assert healthy["second_look"] == []
    slowest = min(
        r["rate"] for r in each_gpu.parse_each_gpu(texts["healthy"]).rows if r["copy"] == "d2d"
    )
    assert healthy["metrics"]["between_gpus_worst"]["value"] == slowest
    (node,) = healthy["gpus"]["nodes"].values()
    assert all(NAME in gpu for gpu in node["gpus"]) and node["drivers"] == ["0.0.emulated"]


#: Nodes of two GPUs: what they print, by the fault of one of them.
HEALTHY = first(2, recorded("healthy"))
OF_TWO = {
    "healthy": HEALTHY,
    "gpu": first(2, recorded("slow-gpu")),
    "pair": slower(HEALTHY, lambda ends: ends == {0, 1}),
    "node": slower(HEALTHY, lambda ends: True),
    "access": first(2, recorded("no-access-at-all")),
}


@pytest.mark.slow
def test_other_nodes_decide_where_a_node_has_two_gpus(bench):
    need_namespaces()
    bench.program("here", "mpirun", LAUNCHER)
    bench.partition(
        features=["intra-node", "gpu", "cuda"],
        devices=[{"type": "gpu", "num_devices": 2}],
        extras={"options": emulation.EACH_GPU, "nodes": 3},
    )
    bench.record_all()
    for name, text in OF_TWO.items():
        bench.program(name, "mpirun", LAUNCHER)
        bench.stack(name, ["ucx"], instead(bench, name, HEALTHY, node02=text))
    run = bench.run("-n", "EachGpu", path="reframe/network/each_gpu.py")
    run.says("EachGpu", environ="healthy")
    same = "the median of the same on 2 other nodes"
    run.says("EachGpu", "node02: GPU 1 (", ": host to device 0.", same, environ="gpu")
    run.says("EachGpu", "node02: GPU 0 (", ") -> GPU 1 (", "back 0.", same, environ="pair")
    run.says("EachGpu", "node02: each of its 2 GPUs: host to device 0.", same, environ="node")
    run.says("EachGpu", "cannot access each other's memory", "on 2 other nodes", environ="access")
    for name in ("gpu", "pair", "node", "access"):
        record = run.case("EachGpu", name).record
        assert {tuple(said["nodes"]) for said in record["accused"]} == {("node02",)}
        assert record["second_look"] == ["node01", "node02", "node03"]


@pytest.mark.slow
def test_of_two_gpus_of_one_node_none_is_accused(bench):
    stacks = {name: printed(bench, name, OF_TWO[name]) for name in ("gpu", "pair")}
    run = of_one_node(bench, stacks, number=2)
    outcome = run.case("EachGpu", "gpu")
    assert outcome.record["verdict"] == "INCONCLUSIVE"
    assert outcome.record["accused"] == []
    assert "nobody is accused: no majority of the 2 agrees" in outcome.reason
    # Nothing else has such a link. Only a peak in hardware.yaml could judge it.
    record = run.says("EachGpu", environ="pair").record
    assert sum(") -> GPU " in line for line in record["gpus"]["not_compared"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"EachGpu.tolerence": 0.1}, "has no option 'tolerence'; did you mean 'tolerance'?"),
        ({"EachGpu.size": "1M"}, "EachGpu.size: '1M' is not a whole number above 0"),
        ({"EachGpu.size": True}, "EachGpu.size: True is not a whole number above 0"),
        ({"EachGpu.size": 0}, "EachGpu.size: 0 is not a whole number above 0"),
    ],
)
def test_an_option_that_is_wrong(bench, extra, said):
    of_one_node(bench, {"any": {}}, options=extra).says("EachGpu", said)


@pytest.mark.slow
def test_a_node_with_one_gpu_has_no_metric_between_gpus(bench):
    run = of_one_node(bench, {"one": printed(bench, "one", recorded("one-gpu"))}, number=1)
    record = run.says("EachGpu").record
    assert {name.rpartition("_")[0] for name in record["metrics"]} == {
        "host_to_device", "device_to_host"
    }  # fmt: skip
