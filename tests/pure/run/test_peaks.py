"""The peak of each metric, by the hardware that a partition names; no program runs."""

from types import SimpleNamespace

import nccl_form
import pytest
import shell

from assay.gpu.parse import nccl_tests
from assay.judge import Peak
from assay.run import site
from assay.workloads.sizing import Layout

HARDWARE = """\
link: {wire: {bandwidth: 12500}}
gpu: {old: {fp64: 7000}, new: {fp64: 10000, fp64_matrix: 20000, memory_bandwidth: 2000}}
processor:
  twelve: {cores: 12, clock: 2, boost: 3, fp64_per_cycle: 32, channels: 8, transfers: 3200}
  bare: {cores: 12}
memory: {slow: {transfers: 1600}}
pcie: {x16: {bandwidth: 32000}}
disk: {flash: {read: 7000, write: 4096}}
"""

#: What a program printed; HPCC has peaks of the same run.
PRINTED = SimpleNamespace(cells=lambda *_, metric: [1.0], at=lambda *_, metric: "GFLOP/s")

#: File and class -> what its partition names beside its processor, facts of the case, and for each
#: metric with a peak: the hardware it follows from, its value, and the most that is plausible.
CASES = {
    ("compute/stream.py", "Stream"): ("", {}, {"triad": ("memory.bandwidth", 409600, 1.05)}),
    ("compute/stream.py", "BabelStream"): (
        "memory: slow", {}, {"dot": ("memory.bandwidth", 204800, 1.05)}
    ),
    ("compute/hpcg.py", "Hpcg"): (
        "memory: slow", {}, {"rating": ("memory.bandwidth", 2 * 204.8, None)}
    ),
    ("compute/hpl.py", "Hpl"): ("", {}, {"performance": ("processor.fp64", 8 * 64, 1.575)}),
    ("compute/hpl_study.py", "HplStudy"): (
        "", {"node_peak": lambda: None}, {"performance": ("processor.fp64", 8 * 64, 1.575)}
    ),
    ("compute/hpl_study.py", "GpuHplStudy"): (
        "gpu: new", {"node_peak": lambda: None}, {"performance": ("gpu.fp64_matrix", 160000, 1.05)}
    ),
    ("compute/hpcc.py", "Hpcc"): (
        "",
        {},
        {
            "hpl": ("processor.fp64", 8 * 64, 1.575),
            "dgemm_star": ("processor.fp64", 64, 1.575),
            "stream_triad_star": ("memory.bandwidth", 409.6 / 4, None),
        },
    ),
    ("compute/babelstream_gpu.py", "BabelStreamGpu"): (
        "gpu: new", {}, {"copy_worst": ("gpu.memory_bandwidth", 2e6, 1.05)}
    ),
    ("network/nvbandwidth.py", "Nvbandwidth"): (
        "pcie: x16, link: wire",
        {},
        {
            "host_to_device_worst": ("pcie.bandwidth", 32, 1.05),
            "between_gpus_median": ("link.bandwidth", 12.5, 1.05),
        },
    ),
    ("network/each_gpu.py", "EachGpu"): (
        "pcie: x16", {}, {"device_to_host_median": ("pcie.bandwidth", 32, 1.05)}
    ),
    ("storage/iozone.py", "IozoneLargest"): (
        "disk: flash",
        {"sync": "cached"},
        {"rewrite": ("disk.write", 4e6, 1.05), "reread": ("disk.read", 7e9 / 1024, None)},
    ),
    ("storage/iozone.py", "Iozone"): (
        "disk: flash", {"sync": "direct"}, {"read": ("disk.read", 7e9 / 1024, 1.05)}
    ),
    ("storage/fio.py", "Fio"): (
        "disk: flash", {}, {"write_rate": ("disk.write", 1e6, 1.05), "read_p99": None}
    ),
    ("storage/ior.py", "Ior"): (
        "disk: flash", {}, {"write": ("disk.write", 4.096e9 / 2**20, 1.05)}
    ),
}  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Makes what a test asks of its partition."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x/hardware.yaml").write_text(HARDWARE)
    monkeypatch.setattr(site, "site_directory", lambda: tmp_path / "x")

    def partition(**hardware):
        return SimpleNamespace(
            features=["intra-node"],
            extras={"hardware": hardware},
            processor=SimpleNamespace(num_sockets=2),
        )

    return partition


def of(place, path, name, named, facts):
    """The peaks of a case; it knows no more of itself than here."""
    kind = getattr(shell.module(f"reframe/{path}"), name)

    class Case:
        __getattr__ = lambda self, what: getattr(kind, what).__get__(self)  # noqa: E731

    case, words = Case(), dict(word.split(": ") for word in named.split(", ") if word)
    vars(case).update(
        current_partition=place(**words), record=SimpleNamespace(proof={}),
        num_tasks=8, nodes=2, _layout=Layout(2, 4), gpus_of_a_node=lambda: 4,
        **{"declares": kind.declares, **facts},
    )  # fmt: skip
    return case.peaks(facts.get("parsed", PRINTED))


@pytest.mark.parametrize("which", CASES, ids=lambda which: which[1])
def test_each_metric_has_the_peak_of_its_hardware(place, which):
    named, facts, expected = CASES[which]
    hardware = ", ".join(filter(None, ["processor: twelve", named]))
    found = of(place, *which, hardware, facts)
    for metric, peak in expected.items():
        got = found.get(metric)
        seen = got and (got.of, pytest.approx(got.value), got.most and round(got.most, 6))
        assert seen == peak, metric
    unknown = of(place, *which, "", facts).values()
    assert not any(peak.of for peak in unknown), "nothing is known"


@pytest.mark.parametrize(
    ("name", "path", "value", "most"),
    [
        ("Nccl", {}, 12.5, 7),  # a link to each of seven other GPUs
        ("Nccl", {"channels": {"nvls": 16}}, 12.5, 1.75),
        ("NcclBetween", {"adapters": {"a": [0, 1], "b": [1, 2, 3, 0]}}, 50, 1.75),
        ("NcclBetween", {"adapters": {}}, None, None),
    ],
)
def test_collectives_of_gpus_have_the_ceiling_of_their_way(place, name, path, value, most):
    parsed = SimpleNamespace(facts={"path": path})
    facts = {"metric": "bus", "declares": {"bus": "GB/s"}, "parsed": parsed}
    found = of(place, "network/nccl.py", name, "link: wire", facts)
    assert [(it.value, round(it.most, 4), it.of) for it in found.values()] == (
        [(value, round(most * 1.05, 4), "link.bandwidth")] if value else []
    )


@pytest.mark.parametrize(("program", "least"), [("all_reduce", 8), ("all_gather", 32)])
def test_the_latency_of_a_collective_is_that_of_its_smallest_message(program, least):
    text = nccl_form.output(program, gpus=8, first=least, step=2)
    parsed = nccl_tests.parse_nccl_tests(text)
    case = SimpleNamespace(metric="bus", largest=2 * least)
    found = shell.module("reframe/network/nccl.py").Nccl.measure(case, parsed)
    assert found["latency_8B"].value == parsed.rows[0]["time"]


@pytest.mark.parametrize(("named", "quantity"), [("old", "gpu.fp64"), ("new", "gpu.fp64_matrix")])
def test_a_gpu_without_matrices_has_the_peak_of_its_cores(place, named, quantity):
    facts = {"node_peak": lambda: None}
    found = of(place, "compute/hpl_study.py", "GpuHplStudy", f"gpu: {named}", facts)
    assert found["performance"].of == quantity


def test_the_study_keeps_its_own_peak_beside_that_of_the_vendor(place):
    facts = {"node_peak": lambda: ("cores", 24.0)}
    found = of(place, "compute/hpl_study.py", "HplStudy", "", facts)
    assert found == {"performance": Peak("2 x cores", 48.0, most=None)}
    found = of(place, "compute/hpl_study.py", "HplStudy", "processor: twelve", facts)
    assert found["performance"].of == "processor.fp64"


def test_a_processor_without_figures_has_no_peak(place):
    named = "processor: bare, memory: slow"
    assert of(place, "compute/hpl.py", "Hpl", named, {}) == {}
    assert of(place, "compute/stream.py", "Stream", named, {}) == {}
