"""Evidence of CUDA IPC, held against the emulator's count of the bytes (tests/data/vgpu).

And which release of NVIDIA's HPL runs on which GPU.
"""

from dataclasses import replace

import gpu_records
import gpu_runs
import pytest
from bench import ROOT
from gpu_records import EMULATED as RUNS

from assay import files
from assay.gpu import gpu_paths
from assay.gpu.accelerator import CUDA
from assay.gpu.gpu_paths import INTRA, Sent, Way
from assay.parse import ucx_log
from assay.workloads.osu import numbers

ROWS = gpu_records.rows(RUNS)
KEPT = gpu_records.kept(RUNS)


def took(file):
    return gpu_records.took(ROWS[file])


def prove(file):
    return gpu_records.prove(RUNS, file)


@pytest.mark.parametrize("file", KEPT)
def test_a_log_proves_what_it_proved_when_it_was_recorded(file):
    assert gpu_runs.verdict(prove(file)) == ROWS[file]["proof"]


def test_a_run_is_red_exactly_if_its_bytes_took_another_way_than_those_of_the_healthy_run():
    judged = [file for file in ROWS if gpu_records.judged(file)]
    assert len(judged) == 597
    for file in judged:
        said, lacking = ROWS[file]["proof"], gpu_records.lacking(file)
        assert gpu_runs.agrees(said, took(file), took(gpu_records.healthy(file)), lacking), file


def test_a_run_with_a_buffer_in_host_memory_claims_nothing():
    others = [file for file in ROWS if not gpu_records.judged(file)]
    assert len(others) == 120
    assert {ROWS[file]["proof"] for file in others} == {ucx_log.NONE}
    for file in {*others} & {*KEPT}:
        assert prove(file).problems == (), file
    file = "1.18.1/osu_latency-DH.1048576.two.all.{}.txt"
    assert took(file.format("healthy")) != took(file.format("ipc-open"))


BROKEN_OSU = [
    file for file in KEPT
    if "/osu_" in file and ".1048576." in file and ".ipc-open." in file and gpu_records.judged(file)
    and took(file) != took(gpu_records.healthy(file))
]  # fmt: skip


def test_each_program_of_osu_that_needs_cuda_ipc_and_each_ucx_has_a_run_without_it():
    runs = [gpu_records.run_of(file) for file in BROKEN_OSU]
    names = {"osu_latency-DD", "osu_bw-DD", "osu_bcast", "osu_gather", "osu_alltoall"}
    assert {run.operation for run in runs} == names
    assert {run.version for run in runs} == {gpu_records.run_of(file).version for file in ROWS}


@pytest.mark.parametrize("file", BROKEN_OSU)
def test_a_broken_cuda_ipc_is_named_by_each_test_of_osu_that_needs_it(file):
    (problem,) = prove(file).problems
    did_not = "count" if file.startswith("1.22.") else "choose it for"
    assert problem.startswith(f"cuda_ipc carried nothing: UCX did not {did_not} ")


def test_a_sender_that_never_chooses_cuda_ipc_is_named_at_a_size_that_it_may_send_otherwise():
    file = "1.16.0/osu_bw-DD.8.two.no-gdrcopy.{}.txt"
    assert took(file.format("ipc-open")) != took(file.format("healthy"))
    assert prove(file.format("healthy")).problems == ()
    (problem,) = prove(file.format("ipc-open")).problems
    assert problem == "cuda_ipc carried nothing: UCX did not choose it for messages of 8 B"


def test_a_receiver_that_knows_no_memory_of_its_sender_has_mapped_none():
    """Its plan to let the sender write is on cuda_ipc in both runs."""
    file = "1.16.0/osu_gather.1048576.two.no-gdrcopy.{}.txt"
    for fault, problems in (("healthy", 0), ("ipc-open", 1)):
        log = ucx_log.parse_ucx_log((RUNS / file.format(fault)).read_text())
        plans = [
            row for table in log.peer_tables("rendezvous data fetch")
            if " from " not in table.memory for row in table.rows
        ]  # fmt: skip
        assert any("cuda_ipc/cuda" in row.lanes for row in plans)
        assert len(prove(file.format(fault)).problems) == problems


SMALL_BY_GDRCOPY = "1.22.0/tag_lat.8.two.all.healthy.txt"


def test_small_messages_may_go_by_gdrcopy_and_not_by_ipc():
    assert took(SMALL_BY_GDRCOPY) == {"gdr to"}
    proof = prove(SMALL_BY_GDRCOPY)
    assert (proof.means, proof.problems) == (gpu_paths.UNUSED, ())


@pytest.mark.parametrize("file", [file for file in KEPT if ".gdrdrv" in file])
def test_a_driver_of_gdrcopy_that_a_process_lacks_is_named(file):
    named = "transport 'gdr_copy' is not available"
    assert any(named in problem for problem in prove(file).problems)


def test_libgdrapi_says_that_it_copied_only_if_bytes_went_that_way():
    spoke = [file for file, run in ROWS.items() if "libgdrapi" in run]
    assert len(spoke) == 108
    for file in spoke:
        way = Way(gpu_records.run_of(file).configuration, INTRA, CUDA)
        shown, wrong = gpu_paths.gdrcopy(way, "\n".join(ROWS[file]["libgdrapi"]))
        assert wrong == [], file
        by_gdrcopy = any(name.startswith("gdr ") for name in ROWS[file]["bytes"])
        assert shown == "silent" or by_gdrcopy, file


def test_libgdrapi_is_silent_about_aligned_copies_of_8_b():
    file = "1.16.0/tag_bw.8.two.all.healthy.txt"
    assert took(file) == {"gdr to"}
    said = "\n".join(ROWS[file]["libgdrapi"])
    assert gpu_paths.gdrcopy(Way("all", INTRA, CUDA), said) == ("silent", [])


BROKEN = "1.22.0/tag_bw.16777216.two.no-gdrcopy.ipc-open.txt"
HEALTHY = BROKEN.replace("ipc-open", "healthy")


def test_a_counted_pipeline_on_cuda_ipc_is_no_proof():
    """At 16 MiB, UCX counts a row without (?) on cuda_ipc, and copies through the host."""
    assert took(BROKEN) == {"h2d"}
    rows = [
        row for table in ucx_log.parse_ucx_log((RUNS / BROKEN).read_text()).peer_tables("")
        for row in table.rows if row.count and "cuda_ipc/cuda" in row.lanes
    ]  # fmt: skip
    assert any(not row.estimate for row in rows)
    assert not any(gpu_paths.direct(row) for row in rows)
    assert "cuda_ipc/cuda" not in prove(BROKEN).lanes


def used(file, sent, change=lambda text: text):
    log = ucx_log.parse_ucx_log(change((RUNS / file).read_text()))
    return gpu_paths.over_ipc(CUDA, log, (1, 22), sent)


def test_a_collective_needs_a_proof_at_any_size():
    assert used(HEALTHY, Sent("Dd"))[1] == ""
    problem = "cuda_ipc carried nothing: UCX did not count any message"
    assert used(BROKEN, Sent("Dd"))[1] == problem


def test_a_run_without_its_lane():
    _, problem = used(
        HEALTHY, Sent("Dd"), lambda text: text.replace("cuda_ipc/cuda", "cma/memory   ")
    )
    assert problem.startswith("no lane of cuda_ipc between the processes")


@pytest.mark.parametrize("wrong", [{"h2d"}, {"p2p ipc", "h2d"}])
def test_the_comparison_itself_can_fail(wrong):
    assert gpu_runs.agrees(ucx_log.COUNT, {"p2p ipc"}, {"p2p ipc"})
    assert not gpu_runs.agrees(ucx_log.COUNT, wrong, {"p2p ipc"})
    assert not gpu_runs.agrees(gpu_runs.RED, {"p2p ipc"}, {"p2p ipc"})
    assert not gpu_runs.agrees(ucx_log.COUNT, {"h2d"}, {"h2d"})


def test_plans_alone_prove_nothing():
    log = ucx_log.parse_ucx_log((RUNS / HEALTHY).read_text())
    tables = tuple(
        replace(table, rows=tuple(replace(row, estimate=True) for row in table.rows))
        for table in log.tables
    )
    sent = Sent("Dd", (16 << 20,))
    assert gpu_paths.over_ipc(CUDA, log, (1, 22), sent)[0] == ucx_log.COUNT
    _, problem = gpu_paths.over_ipc(CUDA, replace(log, tables=tables), (1, 22), sent)
    assert problem == "cuda_ipc carried nothing: UCX did not count messages of 16777216 B"


@pytest.mark.parametrize(
    ("gpu", "release", "said"),
    [
        ("v100-sxm2-32gb", "21.4", ""),
        ("v100-sxm2-32gb", "23.5", "release 23.5 does not run on v100-sxm2-32gb"),
        ("v100-sxm2-32gb", "25.09", "take 21.4"),
        ("v100s-pcie-32gb", "24.03", "take 21.4"),
        ("h200-nvl-141gb", "21.4", "take 23.5"),
        ("a100-sxm4-40gb", "21.4", ""),
        ("a100-sxm4-40gb", "25.09", ""),
        ("h100-sxm5-80gb", "21.4", "take 23.5 or newer"),
        ("h100-sxm5-80gb", "24.03", ""),
        ("b200-sxm-180gb", "24.09", "take 25.02 or newer"),
        ("gb200", "25.02", ""),
        # What nobody knows is tried.
        ("h100-sxm5-80gb", "", ""),
        ("b300-sxm-288gb", "21.4", ""),
        ("l40s", "23.5", ""),
    ],
)
def test_a_release_that_cannot_run_is_refused_with_those_that_can(gpu, release, said):
    found = CUDA.hpl_does_not_run(gpu, release)
    assert bool(found) == bool(said)
    assert said in found


def test_each_row_is_of_gpus_that_the_suite_knows_and_has_a_source():
    known = files.read_yaml(ROOT / "site-config/hardware/gpu.yaml", ValueError)
    for name, its in CUDA.hpl_releases.items():
        assert any(CUDA.releases_of(gpu) is its for gpu in known), name
        assert its.source
        assert not its.last or numbers(its.first) <= numbers(its.last)
