"""Evidence of CUDA IPC, held against the emulator's count of the bytes (tests/data/vgpu)."""

import json
from collections import Counter
from dataclasses import replace

import gpu_runs
import pytest
from gpu_runs import ways
from real_outputs import DATA

from assay.evidence import gpu_ipc
from assay.evidence.accelerator import CUDA
from assay.evidence.gpu_ipc import Sent
from assay.outputs import ucx_log

RUNS = DATA / "vgpu"
BYTES = {
    run["file"]: run["bytes"]
    for run in map(json.loads, (RUNS / "bytes.jsonl").read_text().splitlines())
}


def took(file):
    """The ways of the bytes: what the programs did, not what they said."""
    return ways(BYTES[file])


def prove(file):
    version, name = file.split("/")
    operation, size, _, configuration, *_ = name.split(".")
    log = ucx_log.parse((RUNS / file).read_text())
    return gpu_runs.prove(version, operation, int(size), configuration, log)


@pytest.mark.parametrize("file", BYTES)
def test_a_run_is_red_exactly_if_its_bytes_took_another_way_than_those_of_the_healthy_run(file):
    *rest, _, end = file.split(".")
    healthy = took(".".join([*rest, "healthy", end]))
    proof = prove(file)
    assert gpu_runs.agrees(proof, took(file), healthy), proof


def test_the_page_has_the_counts_of_these_runs():
    counts = {}
    for file in BYTES:
        version, name = file.split("/")
        *_, configuration, fault, _ = name.split(".")
        on = "off" if "no-ipc" in configuration else "on"
        runs = counts.setdefault((version, on, fault), Counter(runs=0, by_ipc=0, red=0))
        by_ipc, red = any("ipc" in way for way in took(file)), bool(prove(file).problems)
        runs.update(runs=1, by_ipc=by_ipc, red=red)
    page = (DATA.parents[1] / "docs/vgpu.md").read_text()
    for what, runs in counts.items():
        assert f"| {' | '.join((*what, *map(str, runs.values())))} |" in page
    assert f"All {len(BYTES)} agree" in page
    assert len(BYTES) > 100


BROKEN = "1.22.0/tag_bw.16777216.two.no-gdrcopy.ipc-open.txt"
HEALTHY = BROKEN.replace("ipc-open", "healthy")


def test_a_counted_pipeline_on_cuda_ipc_is_no_proof():
    """At 16 MiB, UCX counts a row without (?) on cuda_ipc, and copies through the host."""
    assert took(BROKEN) == {"h2d"}
    rows = [
        row for table in ucx_log.parse((RUNS / BROKEN).read_text()).peer_tables("")
        for row in table.rows if row.count and "cuda_ipc/cuda" in row.lanes
    ]  # fmt: skip
    assert any(not row.estimate for row in rows)
    assert not any(gpu_ipc.direct(row) for row in rows)
    assert "cuda_ipc/cuda" not in prove(BROKEN).lanes


def used(file, sent, change=lambda text: text):
    log = ucx_log.parse(change((RUNS / file).read_text()))
    return gpu_ipc.used(CUDA, log, (1, 22), sent)


def test_a_collective_needs_a_proof_at_any_size():
    assert used(HEALTHY, Sent("Dd")).problems == ()
    problem = "cuda_ipc carried nothing: UCX did not count any message"
    assert used(BROKEN, Sent("Dd")).problems == (problem,)


def test_a_run_without_its_lane():
    (problem,) = used(
        HEALTHY, Sent("Dd"), lambda text: text.replace("cuda_ipc/cuda", "cma/memory   ")
    ).problems
    assert problem.startswith("no lane of cuda_ipc between the processes")


@pytest.mark.parametrize("wrong", [{"h2d"}, {"p2p ipc", "h2d"}])
def test_the_comparison_itself_can_fail(wrong):
    proof = prove(HEALTHY)
    assert gpu_runs.agrees(proof, {"p2p ipc"}, {"p2p ipc"})
    assert not gpu_runs.agrees(proof, wrong, {"p2p ipc"})
    assert not gpu_runs.agrees(prove(BROKEN), {"p2p ipc"}, {"p2p ipc"})
    assert not gpu_runs.agrees(proof, {"h2d"}, {"h2d"})


def test_plans_alone_prove_nothing():
    log = ucx_log.parse((RUNS / HEALTHY).read_text())
    tables = tuple(
        replace(table, rows=tuple(replace(row, estimate=True) for row in table.rows))
        for table in log.tables
    )
    sent = Sent("Dd", (16 << 20,))
    assert gpu_ipc.used(CUDA, log, (1, 22), sent).means == ucx_log.COUNT
    (problem,) = gpu_ipc.used(CUDA, replace(log, tables=tables), (1, 22), sent).problems
    assert problem == "cuda_ipc carried nothing: UCX did not count messages of 16777216 B"
