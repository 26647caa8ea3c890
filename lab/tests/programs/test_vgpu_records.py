"""Runs between GPUs are recorded and compared, with emulated GPUs in place of real ones."""

import gpu_records
import gpu_runs
import pytest
import shell
from bench import ROOT, live_program
from gpu_records import Refusal

VERSION = gpu_runs.VERSIONS[-1]
POSING = gpu_runs.EMULATED._replace(name="an emulated GPU that poses as a real one")
RUN = gpu_runs.Run(VERSION, "tag_lat", 1 << 20, 4, 2, "no-gdrcopy", "healthy")


@pytest.fixture
def record(tmp_path):
    live_program("gcc")
    if not gpu_runs.installed(VERSION):
        pytest.skip("needs UCX for the emulated GPU: make vgpu")

    def into(name, run=RUN):
        (line,) = gpu_records.record(tmp_path / name, POSING, [run])
        return tmp_path / name, line

    return into


def test_equal_gpus_do_not_differ_and_a_fault_is_shown(record, monkeypatch):
    first, line = record("first")
    assert line == f"{gpu_records.file_of(RUN)}: count"
    assert list(gpu_records.compare(first, record("second")[0])) == []
    (row,) = gpu_records.rows(first).values()
    assert (row["gpu"], row["bytes"].keys()) == (POSING.name, {"nvlink ipc"})
    log = (first / row["file"]).read_text()
    assert str(ROOT) not in log
    assert "[node:" in log

    monkeypatch.setitem(gpu_runs.FAULTS, "healthy", gpu_runs.FAULTS["ipc-open"])
    broken, line = record("broken")
    assert "cuda_ipc carried nothing" in line
    (shown,) = gpu_records.compare(first, broken)
    assert "\n    -rendezvous data fetch" in shown


def test_a_run_that_fails_is_named_and_not_recorded(record, monkeypatch):
    monkeypatch.setitem(gpu_runs.FAULTS, "healthy", ("driver", "driver"))
    folder, line = record("driver")
    assert line.startswith(f"{gpu_records.file_of(RUN)}: FAILED: ")
    assert "ended with 255:" in line
    assert gpu_records.rows(folder) == {}


def test_nothing_is_overwritten_and_nothing_is_no_record(tmp_path):
    with pytest.raises(Refusal, match="exists: name a folder that does not"):
        next(gpu_records.record(tmp_path, POSING, [RUN]))
    nothing = POSING._replace(ucx=tmp_path)
    with pytest.raises(Refusal, match=r"no UCX in .*: type lab/vgpu/ucx\.sh, with --real"):
        next(gpu_records.record(tmp_path / "new", nothing, gpu_records.plan(nothing, 2)))


SMI = {
    "": "nvidia-smi names no GPU of this machine",
    "echo EMULATED GPU, 0.0.emulated": "nvidia-smi names no real GPU",
    "true": "nvidia-smi names no real GPU",
}


@pytest.mark.parametrize("says", SMI)
def test_an_emulated_gpu_is_not_recorded_as_a_real_one(says, tmp_path, monkeypatch):
    if says:
        shell.program(tmp_path, "nvidia-smi", says)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match=SMI[says]):
        gpu_records.real_gpus()


def test_real_gpus_are_named_with_their_driver(tmp_path, monkeypatch):
    shell.program(tmp_path, "nvidia-smi", "echo H200, 580.1\n" * 4)
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus, number = gpu_records.real_gpus()
    assert (gpus.name, gpus.driver, number) == ("H200, 580.1", "", 2)


def test_a_machine_without_nvidia_smi_is_refused_before_anything_is_fetched(tmp_path):
    path = shell.tools(tmp_path / "bin", "bash env realpath dirname")
    done = shell.run(ROOT / "lab/vgpu/on-hardware.sh", tmp_path / "out", PATH=str(path))
    assert done.returncode == 2
    assert "no nvidia-smi on PATH" in done.stdout
