"""Programs between emulated GPUs: the evidence of each run follows the trace of its bytes."""

import gpu_runs
import pytest
from bench import live_program

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "version",
    [*(pytest.param(old, marks=pytest.mark.long) for old in gpu_runs.VERSIONS[:-1]),
     gpu_runs.VERSIONS[-1]],
)  # fmt: skip
def test_evidence_follows_the_trace(version, short):
    live_program("gcc")
    if not gpu_runs.installed(version):
        pytest.skip("needs UCX for the emulated GPU: make vgpu")
    sizes = gpu_runs.SIZES[:1] if short else gpu_runs.SIZES
    asked = {(version, *size) for size in sizes}
    runs = [run for run in gpu_runs.RUNS if run[:4] in asked]
    rows = gpu_runs.compared(runs)
    assert [row for row in rows if not row["agrees"]] == []
    assert {row["fault"] for row in rows} == set(gpu_runs.FAULTS)


@pytest.mark.long
def test_evidence_follows_the_trace_of_osu():
    live_program("gcc")
    runs = gpu_runs.osu_of_stack()
    if not runs:
        pytest.skip("needs OSU with CUDA: GPUEMU_STACK names its prefix")
    rows = gpu_runs.compared(runs)
    assert [row for row in rows if not row["agrees"]] == []
    assert any(row["problems"] for row in rows)


def test_evidence_follows_the_trace_with_gdrcopy():
    live_program("gcc")
    version = gpu_runs.stack_with_gdrcopy()
    if not version:
        pytest.skip("needs a UCX with gdrcopy: GPUEMU_STACK names its prefix")
    rows = gpu_runs.compared(gpu_runs.with_gdrcopy(version))
    assert [row for row in rows if not row["agrees"]] == []
    assert "gdr to" in rows[0]["ways"]
