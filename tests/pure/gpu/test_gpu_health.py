"""The state of GPUs before, during and after a run, and who used which of them."""

import random
from dataclasses import replace

import gpu_records
import pytest
from real_outputs import DATA

from assay.gpu import gpu_health
from assay.gpu.accelerator import ACCELERATORS, CUDA, ROCM
from assay.gpu.gpu_health import Taken
from assay.gpu.parse import nvidia_smi
from assay.parse import ucx_log
from assay.prove import counters, plan

STATE = (DATA / "nvidia-smi/state.emulated.txt").read_text()
UUID = "GPU-67707565-6d75-4000-acdb-70b50737cf0"
GPU_1 = f"GPU 1 ({UUID}1, 00000000:2B:00.0)"
ROW_1 = f"{UUID}1, 00000000:2B:00.0, 0, 0, [N/A], Not Active, Not Active, Not Active\n"
XID = "[ 12.5] NVRM: Xid (PCI:0000:2b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
HEALTHY = nvidia_smi.parse_nvidia_smi(STATE)


def changed(*changes):
    text = STATE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return nvidia_smi.parse_nvidia_smi(text)


def test_what_is_read_of_a_healthy_node():
    assert [gpu.number for gpu in HEALTHY.gpus] == [0, 1, 2, 3]
    gpu = HEALTHY.gpus[1]
    assert (gpu.uuid, gpu.bus, gpu.cpus) == (f"{UUID}1", "00000000:2B:00.0", "0-7")
    assert gpu.ways == {0: "NV1", 2: "NV1", 3: "NV1"}
    assert set(gpu.peers.values()) == {"OK"}
    assert "retired_pages.pending" not in gpu.values, "a field that it does not have"
    assert set(gpu.values.values()) == {0.0}
    links = [name for name in gpu.values if name.startswith("Link ")]
    assert links[:3] == [f"Link 0: {name} Errors" for name in ("Replay", "Recovery", "CRC")]
    assert len(links) == 9
    assert (HEALTHY.driver, HEALTHY.xids, HEALTHY.unread) == ("0", (), {})
    assert HEALTHY.named("1") == HEALTHY.named(f"{UUID}1") == gpu
    assert HEALTHY.named("4") is HEALTHY.named("all") is None


def test_a_healthy_node_has_no_problem():
    assert gpu_health.unfit(CUDA, HEALTHY, 4, ["nvlink"]) == []
    assert gpu_health.gpu_problems(CUDA, HEALTHY, HEALTHY) == []


def slow(clocks):
    """The row of GPU 1 with the first two reasons for a slow clock."""
    return ROW_1.replace("Not Active, Not Active", clocks, 1)


#: What differs from the healthy state, and the problem; each problem names its GPU.
UNFIT = {
    "memory errors": ((ROW_1, ROW_1.replace(" 0, 0,", " 3, 0,")),
                      f"{GPU_1}: uncorrected memory errors since the driver was loaded: 3, at"),
    "many corrected ones": ((ROW_1, ROW_1.replace(" 0, 0,", " 0, 50000001,")),
                            f"{GPU_1}: corrected memory errors since the driver was loaded"),
    "pages": ((ROW_1, ROW_1.replace("[N/A]", "Yes")), f"{GPU_1}: pages of memory that wait"),
    "rows": ((f"{UUID}1, 0, 0", f"{UUID}1, 1, 0"), f"{GPU_1}: rows of memory that wait"),
    "failed rows": ((f"{UUID}1, 0, 0", f"{UUID}1, 0, Yes"), "rows of memory that could not be"),
    "clock": ((ROW_1, slow("Active, Not Active")),
              f"{GPU_1}: the hardware slows the clock to half or less, because of heat ("),
    "power": ((ROW_1, slow("Not Active, Active")),
              f"{GPU_1}: the hardware slows the clock to half or less, because the power supply"),
    "driver": (("[driver]\n0", "[driver]\n803"), "libcuda.so.1 does not start on this node"),
    "no NVML": ((STATE, "[gpu uuid,pci.bus_id]\nFailed to initialize NVML: Driver Not Loaded\n"),
                "the state of the GPUs is not known: Failed to initialize NVML: Driver Not Loaded"),
    "no tool": ((STATE, "[gpu uuid,pci.bus_id]\nsh: 2: nvidia-smi: not found\n"),
                "the state of the GPUs is not known: sh: 2: nvidia-smi: not found"),
    "nothing": ((STATE, ""), "the state of the GPUs is not known: no GPU is listed"),
    "fewer GPUs": ((ROW_1, ""), "nvidia-smi lists 3 GPUs, the site says 4"),
    "no NVLink": (("GPU1\t NV1 \t X \t NV1 \t NV1 ", "GPU1\t PHB \t X \t PHB \t SYS "),
                  f"{GPU_1} has no NVLink to another GPU (PHB, SYS), but the partition says"),
    "a pair": (("GPU0\t X \t OK ", "GPU0\t X \t CNS "),
               "are joined by NV1, but cannot access each other's memory: nvidia-smi topo -p2p r"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_wrong_with_a_gpu_is_named_with_the_gpu(name):
    change, said = UNFIT[name]
    problems = gpu_health.unfit(CUDA, changed(change), 4, ["nvlink"])
    assert any(said in problem for problem in problems), problems
    assert len(problems) == 1, problems


def test_a_partition_that_does_not_say_nvlink_may_have_none():
    change, _ = UNFIT["no NVLink"]
    assert gpu_health.unfit(CUDA, changed(change), 4) == []


def test_counters_that_rise_during_a_run_are_faults_and_harmless_ones_are_recorded():
    after = changed((ROW_1, ROW_1.replace(" 0, 0,", " 2, 5,")))
    (problem,) = gpu_health.gpu_problems(CUDA, HEALTHY, after)
    assert problem.startswith(f"{GPU_1}: uncorrected memory errors since the driver was loaded: 2")
    record = gpu_health.record(HEALTHY, after)
    assert record["rose"] == {
        "ecc.errors.uncorrected.volatile.total": {f"{UUID}1": 2},
        "ecc.errors.corrected.volatile.total": {f"{UUID}1": 5},
    }
    corrected = changed((ROW_1, ROW_1.replace(" 0, 0,", " 0, 5,")))
    assert gpu_health.gpu_problems(CUDA, HEALTHY, corrected) == []


def test_a_counter_that_began_anew_counts_from_zero():
    before = changed((ROW_1, ROW_1.replace(" 0, 0,", " 0, 70,")))
    after = changed((ROW_1, ROW_1.replace(" 0, 0,", " 0, 4,")))
    assert gpu_health.record(before, after)["rose"] == {
        "ecc.errors.corrected.volatile.total": {f"{UUID}1": 4}
    }


LINK_2 = f"GPU 1: EMULATED GPU (UUID: {UUID}1)\n" + "".join(
    f"\t Link {link}: {name} Errors: 0\n" + ("\n" if name == "CRC" else "")
    for link in range(3)
    for name in ("Replay", "Recovery", "CRC")
)


def of_link_2(name, value):
    """The state with this counter of link 2 of GPU 1."""
    old, new = (f"\t Link 2: {name} Errors: {number}\n" for number in (0, value))
    return changed((LINK_2, LINK_2.replace(old, new)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Replay", "packets that the NVLink sent again"),
        ("Recovery", "times that the NVLink trained again"),
        ("CRC", "flits that arrived damaged over the NVLink"),
    ],
)
def test_an_error_of_an_nvlink_during_a_run_is_named_with_gpu_and_link(name, said):
    after = of_link_2(name, 3)
    assert gpu_health.gpu_problems(CUDA, HEALTHY, after) == [
        f"{GPU_1}: NVLink 2: {said}: 3 more during the run ({name} Errors)"
    ]
    rose = gpu_health.record(HEALTHY, after)["rose"]
    assert rose == {f"{name} Errors": {f"{UUID}1 2": 3}}
    # What was counted before the run may be of other users.
    assert gpu_health.gpu_problems(CUDA, after, after) == gpu_health.unfit(CUDA, after, 4) == []
    assert len(gpu_health.gpu_problems(CUDA, after, of_link_2(name, 4))) == 1


def test_a_gpu_without_nvlinks_is_fine():
    """Both forms are what users show in public; they were not seen on a machine here."""
    text = STATE[STATE.index("[nvlink]") : STATE.index("[driver]")]
    head = "[nvlink]\nGPU 1: EMULATED GPU\n"
    for none in ("", head, f"{head}NVML: Unable to retrieve NVLink information as all links are"):
        bare = changed((text, none))
        assert not [name for gpu in bare.gpus for name in gpu.values if "Link" in name]
        assert gpu_health.gpu_problems(CUDA, bare, bare) == []
        # Counters that could not be read before the run accuse nobody.
        assert gpu_health.gpu_problems(CUDA, bare, of_link_2("CRC", 9)) == []


def test_counters_of_nvlinks_are_found_by_the_number_of_a_gpu_without_uuid():
    text = LINK_2.replace(f" (UUID: {UUID}1)", "").replace(
        "Link 2: CRC Errors: 0", "Link 2: CRC Errors: 5"
    )
    (problem,) = gpu_health.gpu_problems(CUDA, HEALTHY, changed((LINK_2, text)))
    assert problem.startswith(f"{GPU_1}: NVLink 2: flits that arrived damaged over the NVLink: 5")


def test_counters_that_are_not_known_are_on_the_record():
    newer = gpu_health.parse_gpu_state(CUDA, STATE.replace(" Errors: 0", " events: 7"))
    said = {"nvlink": "no counter of NVLinks is known: Link 0: CRC events"}
    assert gpu_health.record(newer, newer)["unread"] == said
    assert gpu_health.parse_gpu_state(CUDA, STATE).unread == {}


def test_only_an_xid_of_this_run_is_a_fault_and_its_gpu_is_named():
    old = changed(("[kernel]\n", f"[kernel]\n{XID}"))
    assert gpu_health.gpu_problems(CUDA, old, old) == []
    new = XID.replace("12.5", "99.0")
    after = changed(("[kernel]\n", f"[kernel]\n{XID}{new}"))
    assert gpu_health.gpu_problems(CUDA, old, after) == [
        f"{GPU_1}: an error during the run: {new.strip()}"
    ]


def test_a_kernel_log_that_may_not_be_read_is_recorded_and_accuses_nobody():
    refused = "dmesg: read kernel buffer failed: Operation not permitted"
    closed = changed(("[kernel]\n", f"[kernel]\n{refused}\n"))
    assert gpu_health.gpu_problems(CUDA, closed, closed) == []
    assert gpu_health.record(closed, closed)["unread"] == {"kernel": refused}


def test_a_gpu_that_is_lost_during_a_run_is_named():
    problems = gpu_health.gpu_problems(CUDA, HEALTHY, changed((ROW_1, "")))
    assert problems == [f"{GPU_1}: it was there before the run, and is gone"]


def test_every_counter_of_the_table_is_asked_for():
    of_gpus = [row for row in counters.rows().values() if row.tool]
    assert len(of_gpus) == 12
    for row in of_gpus:
        vendor, part = row.tool.split()
        command = gpu_health.gpu_state_command(ACCELERATORS[vendor])
        assert f"\necho '[{part}" in command
        # Counters of NVLinks are printed unasked, and lines of the log by their pattern.
        assert row.name in command or part == "nvlink" or row.pattern in command


def test_a_site_may_allow_more_of_a_gpu():
    name = "ecc.errors.uncorrected.volatile.total"
    health = {"counters_max": {name: 3, "CRC Errors": 3}}
    after = changed((ROW_1, ROW_1.replace(" 0, 0,", " 3, 0,")))
    for reading in (after, of_link_2("CRC", 3)):
        assert len(gpu_health.gpu_problems(CUDA, HEALTHY, reading)) == 1
        assert gpu_health.gpu_problems(CUDA, HEALTHY, reading, health) == []
    assert gpu_health.unfit(CUDA, after, 4) and not gpu_health.unfit(CUDA, after, 4, (), health)


def test_the_gpu_that_an_error_took_off_the_bus_is_named():
    gone = changed((ROW_1, ""), ("[kernel]\n", f"[kernel]\n{XID}"))
    assert gpu_health.gpu_problems(CUDA, HEALTHY, gone) == [
        f"{GPU_1}: it was there before the run, and is gone",
        f"{GPU_1}: an error during the run: {XID.strip()}",
    ]


def test_gpus_whose_state_is_not_read_have_no_problem():
    assert gpu_health.gpu_state_command(ROCM) == ""
    nothing = gpu_health.parse_gpu_state(ROCM, "")
    assert (
        gpu_health.unfit(ROCM, nothing, 8) == gpu_health.gpu_problems(ROCM, nothing, nothing) == []
    )


def test_no_text_breaks_the_parser():
    chance = random.Random(17)
    for _ in range(300):
        at, length = chance.randrange(len(STATE)), chance.randrange(60)
        torn = STATE[:at] + chance.choice(["", "\t", "\n", ",", "GPU9", "[gpu a"])
        gpu_health.unfit(
            CUDA, nvidia_smi.parse_nvidia_smi(torn + STATE[at + length :]), 4, ["nvlink"]
        )


# Which GPU was used, and from where.


def taken(  # noqa: PLR0913
    rank, uuid, pid=0, number=0, *, cpus="0", places="unknown unknown", rdma="unknown"
):
    return gpu_health.taken(f"vm {rank} all {uuid} {pid} {number} {cpus} {places} {rdma}")


def log(name):
    return ucx_log.parse_ucx_log((DATA / "vgpu" / name).read_text())


TWO = log("1.22.0/tag_lat.8.two.no-gdrcopy.healthy.txt")
SERVER, CLIENT = 19601, 19627


def test_the_tables_of_ucx_name_the_gpu_of_each_process():
    assert gpu_health.used(CUDA, TWO) == {("vm", SERVER): {0}, ("vm", CLIENT): {1}}


@pytest.mark.parametrize(
    "file", sorted(path.relative_to(DATA / "vgpu").as_posix() for path in DATA.glob("vgpu/1.*/*"))
)
def test_every_recorded_run_used_as_many_gpus_as_it_was_to_use(file):
    wanted = gpu_records.run_of(file).gpus
    assert gpu_health.together(CUDA, log(file), wanted) == []
    if wanted == 1:
        assert set().union(*gpu_health.used(CUDA, log(file)).values()) <= {0}


def test_two_processes_on_one_gpu_are_named():
    one = log("1.22.0/tag_lat.8.one.no-gdrcopy.healthy.txt")
    assert gpu_health.together(CUDA, one, 2) == ["2 processes used GPU0: 2 GPUs were to be used"]


def test_a_rank_that_used_another_gpu_than_its_own_is_named():
    ranks = [taken(0, "GPU-a", SERVER, 0), taken(1, "GPU-b", CLIENT, 1)]
    assert gpu_health.others(CUDA, TWO, ranks) == []
    wrong = [ranks[0], taken(1, "GPU-c", CLIENT, 2)]
    (problem,) = gpu_health.others(CUDA, TWO, wrong)
    assert problem.startswith(
        "rank 1 of vm used GPU1 of those that it sees (all), it was to use GPU2"
    )


def test_ranks_that_were_to_take_the_same_gpu_are_named():
    assert gpu_health.shared([taken(0, "GPU-a"), taken(1, "GPU-a")]) == ["2 ranks of vm took GPU-a"]
    assert gpu_health.shared([taken(0, "GPU-a"), taken(1, "GPU-b")]) == []


@pytest.mark.parametrize(
    ("uuid", "cpus", "said"),
    [
        (f"{UUID}0", "0-3", ""),
        # Nobody bound it: the launcher does not, and there is no taskset.
        (f"{UUID}0", "7-9", "may run on processors 7-9, of which not all are near GPU 0 ("),
        (f"{UUID}0", "8-10,12", "rank 0 of vm runs on processors 8-10,12, far from GPU 0 ("),
        (f"{UUID}3", "0", "which is near 8-15: bind it"),
        (f"{UUID}3", "unknown", ""),
    ],
)
def test_a_rank_far_from_its_gpu_is_named_if_both_places_are_known(uuid, cpus, said):
    problems = gpu_health.far(HEALTHY, [taken(0, uuid, cpus=cpus)], "vm", "bind it")
    assert bool(problems) == bool(said)
    assert all(said in problem for problem in problems)
    assert all(isinstance(each, plan.Note) == ("not all" in each) for each in problems)


@pytest.mark.parametrize(
    ("places", "host", "said"),
    [
        ("0-3 unknown", "vm", "8-9, far from GPU 3 ("),
        ("0-3 unknown", "another", f"8-9, far from {UUID}3, which is near 0-3: bind it"),
        ("8-15 0-3", "another", f"Note: rank 1 of vm and {UUID}3 are far from the network device"),
        ("8-15 8-15", "another", ""),
        # On another node than that of the job, only the kernel's word counts.
        ("unknown unknown", "another", "Note: rank 1 of vm: which processors are near its GPU is"),
    ],
)
def test_what_the_kernel_says_to_a_rank_counts_on_every_node(places, host, said):
    one = taken(1, f"{UUID}3", cpus="8-9", places=places)
    found = gpu_health.far(HEALTHY, [one], host, "bind it")
    assert len(found) == bool(said)
    for each in found:
        assert said in (f"Note: {each}" if isinstance(each, plan.Note) else each)


@pytest.mark.parametrize("uuid", ["unknown", f"{UUID}0"])
def test_a_node_that_does_not_say_where_its_gpus_are(uuid):
    reading = changed(("CPU Affinity", "Other"))
    (note,) = gpu_health.far(reading, [taken(0, uuid, cpus="99")], "vm", "")
    assert isinstance(note, plan.Note)


@pytest.mark.parametrize(
    ("rdma", "said"),
    [
        ("nvidia_peermem", ""),
        ("nv_peer_mem", ""),
        ("dma-buf", ""),
        (
            "no",
            "vm has no kernel module nvidia_peermem, nor an open one of the GPUs: its adapters",
        ),
        (
            "open",
            "Note: vm has no kernel module nvidia_peermem, and does not show another way to the",
        ),
        ("unknown", "Note: vm has no kernel module"),
    ],
)
def test_a_node_whose_adapters_cannot_reach_the_memory_of_its_gpus_is_named(rdma, said):
    ranks = [taken(0, "GPU-a", rdma=rdma), taken(1, "GPU-b", rdma=rdma)]
    found = gpu_health.unreachable(CUDA, ranks)
    assert len(found) == bool(said)
    for each in found:
        assert said in (f"Note: {each}" if isinstance(each, plan.Note) else each)
    # AMD's driver needs no module for it.
    assert gpu_health.unreachable(ROCM, ranks) == []


@pytest.mark.parametrize("torn", ["", "vm 0 all GPU-a", "vm 0 all GPU-a x 0 1"])
def test_a_torn_file_of_a_rank_is_none(torn):
    assert gpu_health.taken(torn) is None
    assert isinstance(taken(0, "GPU-a"), Taken)


def test_an_nvlink_that_is_lost_during_a_run_is_named():
    (first, *rest) = HEALTHY.gpus
    values = {name: value for name, value in first.values.items() if "Link 2" not in name}
    after = replace(HEALTHY, gpus=[replace(first, values=values), *rest])
    assert gpu_health.gpu_problems(CUDA, HEALTHY, after) == [
        f"{first}: NVLink 2: it was there before the run, and is gone"
    ]
    assert gpu_health.gpu_problems(CUDA, after, HEALTHY) == []
