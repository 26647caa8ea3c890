"""Evidence of CUDA IPC, held against the emulator's count of the bytes (tests/data/vgpu)."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from real_outputs import DATA

from assay.evidence import gpu_ipc, gpu_paths
from assay.evidence.accelerator import CUDA
from assay.evidence.gpu_ipc import Sent
from assay.evidence.gpu_paths import INTRA, Way
from assay.outputs import ucx_log

RUNS = DATA / "vgpu"
BYTES = {
    run["file"]: run["bytes"]
    for run in map(json.loads, (RUNS / "bytes.jsonl").read_text().splitlines())
}
#: What ucx_perftest sends: both ranks in turn, or one rank and 1 B in return.
SENT = {"tag_lat": ("DD", 2), "tag_bw": ("Dd", 1)}


def ways(file):
    """The ways that carried more than a tenth of the bytes: what the programs did, not said."""
    arrived = {way: count for way, count in BYTES[file].items() if way not in ("d2h", "gdr from")}
    return {way for way, count in arrived.items() if count > sum(arrived.values()) / 10}


def prove(file, text=None, sent=None):
    version, name = file.split("/")
    operation, size, _, configuration, *_ = name.split(".")
    buffers, senders = SENT[operation]
    log = ucx_log.parse(text or (RUNS / file).read_text())
    way = Way(configuration, INTRA, CUDA)
    sent = sent or Sent(buffers, (int(size),), senders)
    return gpu_paths.prove(way, log, sent, version, processes=2)


@pytest.mark.parametrize("file", BYTES)
def test_a_run_is_red_exactly_if_its_bytes_took_another_way_than_those_of_the_healthy_run(file):
    *rest, _, end = file.split(".")
    healthy = ways(".".join([*rest, "healthy", end]))
    proof = prove(file)
    assert bool(proof.problems) == (ways(file) != healthy), proof.problems
    if not proof.problems:
        by_ipc = any("ipc" in way for way in ways(file))
        assert (proof.means in (ucx_log.COUNT, ucx_log.TABLE)) == by_ipc, proof.means


def test_the_recorded_runs_hold_what_they_are_to_tell_apart():
    kinds = Counter(
        (file.split(".")[-2], any("ipc" in way for way in ways(file))) for file in BYTES
    )
    assert set(kinds) == {
        ("healthy", True), ("healthy", False), ("ipc-open", False),
        ("ipc-open-in-client", True), ("ipc-open-in-client", False),
    }  # fmt: skip


BROKEN = "1.22.0/tag_bw.16777216.two.no-gdrcopy.ipc-open.txt"
HEALTHY = BROKEN.replace("ipc-open", "healthy")


def test_a_counted_pipeline_on_cuda_ipc_is_no_proof():
    """At 16 MiB, UCX counts a row without (?) on cuda_ipc, and copies through the host."""
    assert ways(BROKEN) == {"h2d"}
    rows = [
        row for table in ucx_log.parse((RUNS / BROKEN).read_text()).peer_tables("")
        for row in table.rows if row.count and "cuda_ipc/cuda" in row.lanes
    ]  # fmt: skip
    assert any(not row.estimate for row in rows)
    assert not any(gpu_ipc.direct(row) for row in rows)
    assert "cuda_ipc/cuda" not in prove(BROKEN).lanes


def test_a_collective_needs_a_proof_at_any_size():
    sent = Sent("Dd")
    assert prove(HEALTHY, sent=sent).problems == ()
    problem = "cuda_ipc carried nothing: UCX did not count any message"
    assert prove(BROKEN, sent=sent).problems == (problem,)


def test_a_run_without_its_lane():
    text = (RUNS / HEALTHY).read_text().replace("cuda_ipc/cuda", "cma/memory   ")
    assert "no lane of cuda_ipc between the processes" in prove(HEALTHY, text).problems[0]


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
