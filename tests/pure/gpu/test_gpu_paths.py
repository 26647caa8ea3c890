"""Paths to GPU memory: settings that select them, logs that prove them, and refused settings."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from real_outputs import DATA

from assay import catalogue
from assay.fleet.node import provenance
from assay.gpu import gpu_paths
from assay.gpu.accelerator import ACCELERATORS, CUDA, ROCM
from assay.gpu.gpu_paths import CONFIGURATIONS, INTER, INTRA, TCP, Sent, Way
from assay.parse import ucx_log
from assay.parse.ucx_log import Config, Row, Table, UcxLog
from assay.prove import transports

ROOT = Path(__file__).parents[3]
WAYS = [(name, place) for name, c in CONFIGURATIONS.items() for place in c.places]
RANKS = (("node01", 11), ("node01", 12))
IPC, HCA = "cuda_ipc/cuda", "rc_mlx5/mlx5_0:1"


def environment(way, *version_and_device):
    return gpu_paths.gpu_path_variables(Way(*way, CUDA), *version_and_device)


def prove(way, log, buffers, version, processes=None):
    sent = Sent(buffers, senders=0 if buffers is None else buffers.count("D"))
    return gpu_paths.prove_gpu_paths(Way(*way, CUDA), log, sent, version, processes)


def gdrcopy(way, stderr):
    return gpu_paths.gdrcopy(Way(*way, CUDA), stderr)


# --- what is asked ------------------------------------------------------------------------------


def tls(*way):
    return environment(way, "1.20.1", "mlx5_0:1")["UCX_TLS"].split(",")


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_what_is_off_is_not_in_the_list_and_cuda_copy_always_is(way):
    chosen = CONFIGURATIONS[way[0]]
    names = tls(*way)
    assert ("cuda_ipc" in names, "gdr_copy" in names) == (chosen.ipc, chosen.gdrcopy)
    assert "cuda_copy" in names
    assert not any(name.startswith("^") for name in names)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_a_configuration_lacks_what_it_names_and_the_ucx_has_not(way):
    named = ["gdr_copy"] if CONFIGURATIONS[way[0]].gdrcopy else []
    assert gpu_paths.lacking(Way(*way, CUDA), ["gdr_copy", "ib"]) == named
    assert gpu_paths.lacking(Way(*way, CUDA), []) == []


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_rdma_is_switched_only_where_something_reads_the_switch(way):
    variables = environment(way, "1.20.1", "mlx5_0:1")
    if way[1] == INTRA:
        assert "UCX_IB_GPU_DIRECT_RDMA" not in variables
        assert "UCX_NET_DEVICES" not in variables
    else:
        # The value is never `try`, which is silent if GPUDirect RDMA is missing.
        assert variables["UCX_IB_GPU_DIRECT_RDMA"] == ("y" if CONFIGURATIONS[way[0]].rdma else "n")
        assert variables["UCX_NET_DEVICES"] == "mlx5_0:1"


@pytest.mark.parametrize(
    ("version", "tables"),
    [("1.13.1", None), ("1.15.0", None), ("1.16.0", "y"), ("1.20.1", "y"), ("1.22.0", "used")],
)
def test_the_generation_decides_how_ucx_is_asked_for_its_tables(version, tables):
    assert environment(("all", INTRA), version).get("UCX_PROTO_INFO") == tables


@pytest.mark.parametrize("version", ["1.12.1", "1.23.0", "2.0.0", "latest", ""])
def test_an_unknown_generation_is_an_error_and_no_guess(version):
    with pytest.raises(ValueError, match=r"is known for 1\.13 to 1\.22"):
        environment(("all", INTRA), version)
    with pytest.raises(ValueError, match=r"is known for 1\.13 to 1\.22"):
        prove(("all", INTRA), UcxLog(), "DD", version)


def test_a_configuration_that_a_place_would_not_notice_is_refused():
    with pytest.raises(ValueError, match="no-ipc makes no difference inter-node"):
        environment(("no-ipc", INTER), "1.20.1")
    with pytest.raises(ValueError, match="unknown configuration 'ipc'"):
        environment(("ipc", INTRA), "1.20.1")


# --- what is proven -----------------------------------------------------------------------------


def sends(memory, version, lanes, count=None):
    """A table of tagged messages for each rank, as this UCX prints it for the memory in use."""
    if tuple(map(int, version.split("."))) < transports.TABLES_SINCE:
        return ()
    row = Row(
        1 << 20, 1 << 40, "zero-copy read from remote", dict.fromkeys(lanes, 1.0), count=count
    )
    config = "ucp_context_0 intra-node cfg#1"
    of = {"D": "cuda/GPU0", "H": "host memory"}
    return tuple(
        Table(rank, config, "tagged message by ucp_tag_send*", "", of[m], (row,))
        for rank, m in zip(RANKS, memory)
    )


def said(way, version="1.20.1", lanes=("sysv/memory", IPC), count=None, memory="DD", **more):
    """A log of two ranks with these lanes, as this version of UCX prints it."""
    asked = environment(way, version, "mlx5_0:1")
    carrying = [lane for lane in lanes if lane == IPC] or list(lanes)[:1]
    known = {
        "processes": frozenset(RANKS),
        "versions": dict.fromkeys(RANKS, (version, "/lib/libucp.so.0")),
        "env": dict.fromkeys(RANKS, asked),
        "configs": tuple(
            Config(rank, f"ucp_context_0 {way[1]} cfg#1", tuple(lanes)) for rank in RANKS
        ),
        "tables": sends(memory, version, carrying, count),
    }
    return UcxLog(**{**known, **more})


def problems(way, log, version="1.20.1", buffers="DD"):
    return prove(way, log, buffers, version, processes=2).problems


@pytest.mark.parametrize(
    ("version", "means"), [("1.15.0", "open lane"), ("1.20.1", "protocol table")]
)
def test_an_open_lane_proves_cuda_ipc_only_where_ucx_prints_no_tables(version, means):
    way = ("all", INTRA)
    proof = prove(way, said(way, version), "DD", version, processes=2)
    assert (proof.problems, proof.means) == ((), means)


def test_operations_that_ucx_counted_prove_it_where_it_counts_them():
    way = ("all", INTRA)
    proof = prove(way, said(way, "1.22.0", count=27), "DD", "1.22.0", processes=2)
    assert (proof.problems, proof.means, dict(proof.lanes)) == ((), "count", {IPC: 1.0})


@pytest.mark.parametrize(
    ("way", "version", "log", "problem"),
    [
        (("no-ipc", INTRA), "1.20.1", {}, "it should be off"),
        (("all", INTRA), "1.20.1", {"lanes": ["sysv/memory"]}, "no lane of cuda_ipc"),
        (("all", INTRA), "1.22.0", {"count": 0}, "cuda_ipc carried nothing"),
        (("all", INTRA), "1.20.1", {"lanes": [IPC, "tcp/eth0"]}, "tcp is open"),
        (("all", INTER), "1.20.1", {"lanes": ["sysv/memory"]}, "sysv is open"),
        (("all", INTER), "1.20.1", {"lanes": ["tcp/ib0"]}, "tcp is open"),
        (
            ("no-rdma", INTER),
            "1.20.1",
            {
                "lanes": [HCA],
                "unused": frozenset(["UCX_IB_GPU_DIRECT_RDMA"]),
            },
            "UCX_IB_GPU_DIRECT_RDMA",
        ),
        (
            ("all", INTER),
            "1.20.1",
            {
                "lanes": [HCA],
                "env": dict.fromkeys(RANKS, environment(("no-rdma", INTER), "1.20.1")),
            },
            "UCX_IB_GPU_DIRECT_RDMA was n where the program ran, y was asked for",
        ),
        (
            ("all", INTRA),
            "1.15.0",
            {"warnings": ("transport 'gdr_copy' is not available",)},
            "transport 'gdr_copy' is not available",
        ),
        (("all", INTRA), "1.20.1", {"processes": frozenset()}, "UCX printed nothing"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_each_sabotage_is_named(way, version, log, problem):
    assert any(problem in line for line in problems(way, said(way, version, **log), version))


@pytest.mark.parametrize("way", [("no-ipc", INTRA), ("no-ipc-no-gdrcopy", INTRA)], ids="-".join)
def test_without_cuda_ipc_the_host_carries_it(way):
    assert problems(way, said(way, lanes=["sysv/memory", "cma/memory"])) == ()


def test_between_nodes_the_hca_carries_it():
    for name in ("all", "no-rdma", "no-rdma-no-gdrcopy"):
        assert problems((name, INTER), said((name, INTER), lanes=[HCA])) == ()


#: Rows of a sender between nodes, in the words of UCX 1.20 and 1.22 (tests/data/vgpu).
DIRECT = "zero-copy flushed write to remote"
THROUGH_HOST = "cuda_copy, frag host, zero-copy flushed write to remote, cuda_copy, frag host"


@pytest.mark.parametrize(
    ("name", "description", "red"),
    [("all", DIRECT, False), ("all", THROUGH_HOST, True), ("no-rdma", THROUGH_HOST, False)],
)
def test_messages_that_went_through_the_host_are_named(name, description, red):
    row = Row(1 << 16, 4 << 20, description, {HCA: 1.0})
    config, kind = "ucp_context_0 inter-node cfg#1", "rendezvous data send"
    table = Table(RANKS[0], config, kind, "", "cuda/GPU0", (row,))
    log = said((name, INTER), lanes=(HCA,), tables=(table,))
    found = gpu_paths.staged(Way(name, INTER, CUDA), log, 1 << 20)
    assert found == (
        f"UCX copied messages of 1048576 B through the memory of the host ({THROUGH_HOST})"
        if red
        else ""
    )
    assert gpu_paths.staged(Way(name, INTER, CUDA), log, 8) == ""


def test_host_memory_needs_no_lane_of_a_gpu():
    log = said(("all", INTRA), lanes=["sysv/memory"], memory="HH")
    assert problems(("all", INTRA), log, buffers="HH") == ()


def test_messages_that_may_come_from_the_host_need_no_lane_either():
    log = said(("all", INTRA), "1.22.0", lanes=["sysv/memory"], memory="HH")
    assert problems(("all", INTRA), log, "1.22.0", buffers=None) == ()


@pytest.mark.parametrize("asked", ["DD", "DH", "HD", "HH"])
@pytest.mark.parametrize("were", ["DD", "DH", "HH"])
def test_buffers_that_are_elsewhere_are_seen_in_the_tables(asked, were):
    found = problems(("all", INTER), said(("all", INTER), lanes=[HCA], memory=were), buffers=asked)
    elsewhere = f"{were.count('D')} ranks sent from GPU memory, {asked.count('D')} of 2 were to"
    assert found == (() if were.count("D") == asked.count("D") else (elsewhere,))


def test_an_older_ucx_has_no_tables_to_see_them_in():
    log = said(("all", INTER), "1.15.0", lanes=[HCA])
    assert problems(("all", INTER), log, "1.15.0", buffers="DH") == ()


SAYS = "DBG:  using AVX implementation of gdr_copy_to_mapping\n"


def test_gdrcopy_speaks_for_itself():
    assert gdrcopy(("all", INTRA), f"noise\n{SAYS}") == ("copied", [])
    assert gdrcopy(("no-gdrcopy", INTRA), "noise\n") == ("silent", [])
    assert gdrcopy(("no-gdrcopy", INTRA), SAYS)[1] == ["gdrcopy copied: it should be off"]
    assert gdrcopy(("all", INTRA), "") == ("silent", [])
    assert environment(("all", INTRA), "1.20.1")["GDRCOPY_LOG_LEVEL"] == "1"


def test_who_only_receives_has_no_table():
    log = said(("all", INTRA))
    one = said(("all", INTRA), tables=log.tables[:1])
    assert problems(("all", INTRA), one, buffers="D") == ()
    assert "1 ranks sent from GPU memory, 2 of 2 were to" in problems(("all", INTRA), one)


@pytest.mark.parametrize(("buffers", "red"), [("Dd", False), ("DD", True), ("dd", False)])
def test_who_may_send_need_not(buffers, red):
    log = said(("all", INTRA))
    one = said(("all", INTRA), tables=log.tables[:1])
    assert bool(problems(("all", INTRA), one, buffers=buffers)) == red
    none = said(("all", INTRA), memory="HH")
    wanted = {"Dd": "1 to 2", "DD": "2", "dd": "0 to 2"}[buffers]
    elsewhere = f"0 ranks sent from GPU memory, {wanted} of 2 were to"
    assert (elsewhere in problems(("all", INTRA), none, buffers=buffers)) == ("D" in buffers)


# --- over TCP, between nodes without InfiniBand --------------------------------------------------

OVER_TCP = DATA / "vgpu/over-tcp"
RUNS = {
    run["file"]: run["bytes"]
    for run in map(json.loads, (OVER_TCP / "bytes.jsonl").read_text().splitlines())
}
STAGED = Way("no-gdrcopy", INTER, CUDA, TCP)


def over_tcp(file, text=None):
    """The verdict on a recorded run of ucx_perftest, as UcxGpuBetween gives it."""
    version = re.match(r"[\d.]+\d(?=\.)", file)[0]
    sent = Sent("DD", (8,), 2) if "tag_lat" in file else Sent("Dd", (1 << 20,))
    log = ucx_log.parse_ucx_log(text or (OVER_TCP / file).read_text())
    return gpu_paths.prove_gpu_paths(STAGED, log, sent, version, processes=2)


@pytest.mark.parametrize("file", RUNS)
def test_over_tcp_a_run_is_red_exactly_if_cuda_ipc_carried_its_bytes(file):
    proof = over_tcp(file)
    by_ipc = any("ipc" in way for way in RUNS[file])
    assert by_ipc == ("one-node" in file and "tag_bw" in file), "two processes on a node have IPC"
    red = ("cuda_ipc/cuda carried messages: tcp was asked for",)
    assert proof.problems == (red if by_ipc else ())
    if not by_ipc:
        assert proof.means == ("count" if file.startswith("1.22") else "protocol table")


@pytest.mark.parametrize("file", [name for name in RUNS if "two-nodes" in name])
def test_over_tcp_what_ucx_does_not_show_is_red(file):
    text = (OVER_TCP / file).read_text()
    size = 8 if "tag_lat" in file else 1 << 20
    silent = f"UCX's log does not show what carried messages of {size} B"
    lanes = text.replace("tag(tcp/eth0)", "tag(tcp/eth0 tcp/eth1 sysv/memory)")
    without = "\n".join(line for line in lanes.splitlines() if "|" not in line)
    assert silent in over_tcp(file, without).problems
    other = text.replace("tcp/eth0", "sysv/memory")
    assert "sysv is open between the processes" in over_tcp(file, other).problems


def test_over_tcp_nothing_of_infiniband_is_switched():
    variables = gpu_paths.gpu_path_variables(STAGED, "1.22.0", "eth0")
    assert variables["UCX_TLS"] == "tcp,self,cuda_copy,cuda_ipc"
    assert variables["UCX_NET_DEVICES"] == "eth0"
    assert "UCX_IB_GPU_DIRECT_RDMA" not in variables
    with pytest.raises(ValueError, match="no-rdma makes no difference over tcp"):
        gpu_paths.gpu_path_variables(Way("no-rdma", INTER, CUDA, TCP), "1.22.0")


# --- GPUs of AMD: nothing was run, so the tests hold what the sources say -----------------------


def test_configurations_that_change_nothing_on_a_gpu_of_amd_are_not_run_there():
    on_rocm = [name for name in CONFIGURATIONS if ROCM in gpu_paths.with_configuration(name)]
    assert on_rocm == ["all", "no-ipc", "no-rdma"]
    assert all(CUDA in gpu_paths.with_configuration(name) for name in CONFIGURATIONS)


@pytest.mark.parametrize(
    ("way", "names"),
    [
        (("all", INTRA), "sm,self,rocm_copy,rocm_ipc"),
        (("no-ipc", INTRA), "sm,self,rocm_copy"),
        (("all", INTER), "rc,self,rocm_copy,rocm_ipc"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_a_gpu_of_amd_has_transports_of_its_own(way, names):
    variables = gpu_paths.gpu_path_variables(Way(*way, ROCM), "1.18.1", "mlx5_0:1")
    assert variables["UCX_TLS"] == names
    assert not any(name.startswith("GDRCOPY") for name in variables)


def test_the_ucx_that_still_has_rocm_gdr_is_refused():
    with pytest.raises(ValueError, match=r"the paths of rocm memory is known for 1\.14 to 1\.22"):
        gpu_paths.gpu_path_variables(Way("all", INTRA, ROCM), "1.13.1")


def test_no_run_on_a_gpu_of_amd_passes_before_a_real_log_was_seen():
    way = Way("all", INTRA, ROCM)
    env = gpu_paths.gpu_path_variables(way, "1.18.1")
    log = said(
        ("all", INTRA), "1.18.1", lanes=("sysv/memory", "rocm_ipc/rocm_ipc"), memory="HH",
        env=dict.fromkeys(RANKS, env),
    )  # fmt: skip
    carried = replace(log.tables[0].rows[0], lanes={"rocm_ipc/rocm_ipc": 1.0})
    tables = tuple(replace(each, memory="rocm/GPU0", rows=(carried,)) for each in log.tables)
    proof = gpu_paths.prove_gpu_paths(
        way, replace(log, tables=tables), Sent("DD"), "1.18.1", processes=2
    )
    assert proof.problems == (ROCM.unproven,)
    assert (proof.means, "rocm_ipc/rocm_ipc" in proof.lanes) == ("protocol table", True)


@pytest.mark.parametrize("gpu", ACCELERATORS.values(), ids=lambda gpu: gpu.word)
def test_a_vendor_has_its_words_and_its_place_in_the_provenance_of_a_node(gpu):
    words = yaml.safe_load((ROOT / "site-config/vocabulary.yaml").read_text())
    assert gpu.word in words["partition"]["features"]
    assert {f"osu-{gpu.word}", f"ucx-{gpu.word}"} <= set(catalogue.WORDS)
    assert {gpu.visible, *gpu.renumbering} <= set(provenance.VARIABLES)
    assert f"{gpu.vendor.lower()}_driver" in provenance.PROGRAMS


ROCMINFO = """\
  Name:                    AMD EPYC 7A53 64-Core Processor
  Uuid:                    CPU-XX
  Marketing Name:          AMD EPYC 7A53 64-Core Processor
  Name:                    gfx90a
  Uuid:                    GPU-a8673551b40c6374
  Marketing Name:          AMD Instinct MI250X
  Name:                    gfx942
  Uuid:                    GPU-1111111111111111
  Marketing Name:          AMD Instinct MI300X
"""


def test_models_of_amd_as_rocminfo_names_them():
    """The form of the text comes from rocminfo.cc and its documentation; no such GPU was seen."""
    assert ROCM.found(ROCMINFO) == ["AMD Instinct MI250X", "AMD Instinct MI300X"]
    assert ROCM.found(ROCMINFO.replace("AMD Instinct MI300X", "")) == ["AMD Instinct MI250X", ""]
    assert ROCM.found("ROCk module is NOT loaded, possibly no GPU devices\n") == []
