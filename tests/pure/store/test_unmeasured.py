"""A link that a machine has and no case uses is named: from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from assay.fleet.node import provenance
from assay.judge import Verdict
from assay.store import unmeasured
from assay.store.cases import Case
from assay.store.record import Metric
from assay.store.session import case_named

PLAIN: dict[str, Any] = {"not_measured": {}, "narrowed": []}
NDR, HDR, EDR = "400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", "100 Gb/sec (4X EDR)"
TOPOLOGY = "[topology]\n\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n  NV#  = NVLinks\n"


def port(
    root: Path, name: str, layer: str, rate: str, state: str = "4: ACTIVE", **more: Any
) -> str:
    device, number = name.split(":")
    folder = root / "infiniband" / device / "ports" / number
    (folder / "hw_counters").mkdir(parents=True)
    for file, text in (("link_layer", layer), ("rate", rate), ("state", state)):
        (folder / file).write_text(f"{text}\n")
    for counter, count in more.get("counters", {}).items():
        (folder / "hw_counters" / counter).write_text(f"{count}\n")
    if more.get("virtual"):
        (root / "infiniband" / device / "device/physfn").mkdir(parents=True)
    return name


def slingshot(root: Path, state: str = "up") -> None:
    (root / "net/hsn0/device/cxi/cxi0").mkdir(parents=True)
    for file, text in (("operstate", state), ("speed", "200000")):
        (root / "net/hsn0" / file).write_text(f"{text}\n")


def health(root: Path, host: str = "node01", scheduler: str = "slurm", gpus: str = "") -> Case:
    """The case that describes a node, from its files below a root."""
    found = {"host": host, "network": provenance.network_devices(str(root)), "gpus": gpus}
    bare = case_named({"display_name": "NodeHealth", "partition": "p", "system": "s"})
    return structs.replace(bare, verdict=Verdict.RECORDED, scheduler=scheduler, provenance=found)


def osu(transport: str, device: str, verdict: Verdict | None = Verdict.PASS, **more: Any) -> Case:
    bare = case_named({"display_name": f"Osu %transport={transport}", "partition": "p"})
    more = {"proof": {"lanes": {f"{transport}/{device}": 1.0}}, **more}
    return structs.replace(
        bare, verdict=verdict, scheduler="slurm", transport=transport, device=device, **more
    )


def test_infiniband_that_no_case_uses_is_red_on_a_cluster_and_a_part_on_one_machine(
    tmp_path: Path,
) -> None:
    port(tmp_path, "mlx5_0:1", "InfiniBand", EDR)
    over_ib0 = osu("tcp", "mlx5_0:1")  # IP over InfiniBand, whose bytes the port counts, too
    (fault,), parts, others = unmeasured.links(PLAIN, [health(tmp_path), over_ib0])
    assert not parts + others
    assert fault.startswith(
        "no case moved bytes over mlx5_0:1 (InfiniBand, 100 Gb/sec (4X EDR)), which is up on node01"
    )
    faults, (part,), _ = unmeasured.links(PLAIN, [health(tmp_path, scheduler="local")])
    assert not faults
    assert "mlx5_0:1" in part
    assert "one node cannot" in part


@pytest.mark.parametrize("transport", ["rc_mlx5", "rc_verbs", "dc_mlx5", "ud_verbs"])
def test_a_case_past_the_kernel_measures_it_and_one_that_did_not_run_does_not(
    tmp_path: Path, transport: str
) -> None:
    port(tmp_path, "mlx5_0:1", "InfiniBand", EDR)
    node = health(tmp_path)
    assert unmeasured.links(PLAIN, [node, osu(transport, "mlx5_0:1")]) == ([], [], [])
    assert unmeasured.links(PLAIN, [node, osu(transport, "mlx5_0:1", None)])[0]
    assert unmeasured.links(PLAIN, [node, osu(transport, "mlx5_1:1")])[0]
    inside = osu(transport, "", proof={"lanes": {f"{transport}/mlx5_0:1": 1.0}})
    assert unmeasured.links(PLAIN, [node, inside])[0], "the adapter sent it back to its own node"


def test_nccl_over_the_adapters_measures_the_devices_of_its_partition(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0:1", "InfiniBand", NDR)
    proofs = {way: {"nccl": {"pairs": {"0->8": [way]}}} for way in ("NET/IB/GDRDMA", "NET/Socket")}
    by = {way: osu("", "mlx5_0:1", proof=proof) for way, proof in proofs.items()}
    assert not unmeasured.links(PLAIN, [health(tmp_path), by["NET/IB/GDRDMA"]])[0]
    assert unmeasured.links(PLAIN, [health(tmp_path), by["NET/Socket"]])[0]


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ({"mpi": "intelmpi"}, True),
        ({"mpi": "openmpi", "pml": ["cm"]}, True),
        ({"mpi": "openmpi", "pml": ["ob1"]}, False),  # IP over InfiniBand, perhaps
    ],
)
def test_of_an_mpi_whose_path_nobody_reads_the_counters_of_the_port_count(
    tmp_path: Path, said: dict[str, Any], counts: bool
) -> None:
    port(tmp_path, "mlx5_0:1", "InfiniBand", EDR)
    link = {"link": {"device": "mlx5_0:1", "moved": {"node01": {"sent": 9}}}}
    cases = [health(tmp_path), osu("", "mlx5_0:1", proof={**said, **link})]
    assert (unmeasured.links(PLAIN, cases)[0] == []) is counts
    cases[1].proof.pop("link")
    assert unmeasured.links(PLAIN, cases)[0]


def test_rails_of_a_measured_kind_are_named_and_no_fault_but_a_slower_one_is(
    tmp_path: Path,
) -> None:
    for number in range(3):
        port(tmp_path, f"mlx5_{number}:1", "InfiniBand", NDR)
    cases = [health(tmp_path), osu("rc_mlx5", "mlx5_0:1")]
    faults, parts, others = unmeasured.links(PLAIN, cases)
    assert not faults + parts
    assert [note.split()[5] for note in others] == ["mlx5_1:1", "mlx5_2:1"]
    port(tmp_path, "mlx5_3:1", "InfiniBand", "200 Gb/sec (2X NDR)")
    (fault,), _, _ = unmeasured.links(PLAIN, [health(tmp_path), *cases[1:]])
    assert "mlx5_3:1 (InfiniBand, 200 Gb/sec (2X NDR))" in fault


def test_ports_of_a_healthy_site_that_join_no_nodes_are_no_fault(tmp_path: Path) -> None:
    """Storage or management over Ethernet, a port that is down, a function of a guest."""
    idle = {"rx_write_requests": 0, "rx_read_requests": 0}
    port(tmp_path, "mlx5_0:1", "Ethernet", "25 Gb/sec (1X EDR)", counters=idle)
    port(tmp_path, "irdma0:1", "Ethernet", "100 Gb/sec (4X EDR)")  # counts no requests
    port(tmp_path, "mlx5_1:1", "InfiniBand", "10 Gb/sec (4X SDR)", "1: DOWN")
    port(tmp_path, "mlx5_2:1", "InfiniBand", "40 Gb/sec (4X QDR)", "2: INIT")
    port(tmp_path, "mlx5_3:1", "InfiniBand", EDR, virtual=True)
    slingshot(tmp_path, "down")
    faults, parts, others = unmeasured.links(PLAIN, [health(tmp_path)])
    assert not faults + parts
    assert [note.split()[5] for note in others] == ["irdma0:1", "mlx5_0:1"]


@pytest.mark.parametrize(("kind", "device"), [("RoCE", "mlx5_0:1"), ("EFA", "rdmap0s6:1")])
def test_roce_that_was_used_and_efa_are_links(tmp_path: Path, kind: str, device: str) -> None:
    if kind == "EFA":
        port(tmp_path, device, "Unspecified", EDR)
    else:
        port(tmp_path, device, "Ethernet", HDR, counters={"rx_write_requests": 7})
    (fault,), _, _ = unmeasured.links(PLAIN, [health(tmp_path)])
    assert f"{device} ({kind}, " in fault


def test_slingshot_of_which_nobody_sees_the_bytes_is_named_and_is_no_fault(tmp_path: Path) -> None:
    slingshot(tmp_path)
    faults, parts, (other,) = unmeasured.links(PLAIN, [health(tmp_path)])
    assert not faults + parts
    assert "cxi0 (Slingshot, 200000 Mbit/s)" in other


def test_links_between_gpus_need_a_case_also_on_one_machine(tmp_path: Path) -> None:
    node = health(tmp_path, scheduler="local", gpus=TOPOLOGY)
    (fault,), _, _ = unmeasured.links(PLAIN, [node])
    assert "nvlink (between the GPUs of a node)" in fault
    copies = osu("", "", proof={}, metrics=(Metric("between_gpus_median"),))
    by_ucx = osu("", "", proof={"lanes": {"cuda_ipc/cuda": 1.0}})
    by_nccl = osu("", "", proof={"nccl": {"pairs": {"0->1": ["P2P/CUMEM"]}}})
    for case in (copies, by_ucx, by_nccl):
        assert unmeasured.links(PLAIN, [node, case]) == ([], [], [])
    through_the_host = osu("", "", proof={"nccl": {"pairs": {"0->1": ["SHM"]}}})
    assert unmeasured.links(PLAIN, [node, through_the_host])[0]
    assert not unmeasured.links(PLAIN, [health(tmp_path, gpus=TOPOLOGY.replace("NV12", "SYS"))])[0]


def test_a_site_says_what_is_not_measured_and_a_part_of_a_run_owes_nothing(
    tmp_path: Path,
) -> None:
    port(tmp_path, "mlx5_4:1", "InfiniBand", HDR)
    node = health(tmp_path)
    storage = {**PLAIN, "not_measured": {"mlx5_[45]:*": "only the storage is behind it"}}
    faults, parts, (other,) = unmeasured.links(storage, [node])
    assert not faults + parts
    assert other.endswith("is up on node01: only the storage is behind it")
    assert unmeasured.links({**PLAIN, "narrowed": ["-n Osu"]}, [node]) == ([], [], [])
    assert unmeasured.links({}, [node]) == ([], [], []), "a run of an older version"


@pytest.mark.parametrize("found", [{}, {"network": 3}, {"network": {"infiniband": {"a": None}}}])
def test_a_record_of_anybody_is_read_without_an_error(found: dict[str, Any]) -> None:
    assert unmeasured.active(found) == {}
