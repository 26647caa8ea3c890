"""`assay site new`: from what Slurm and nodes say to partitions, and to what is not known."""

import pytest
from shell import ROOT

pytest.importorskip("reframe")

from new_site import (
    DATA,
    EDR,
    GPU_NODES,
    HEAD,
    TOPOLOGY,
    TOPOLOGY_KEYS,
    by_name,
    drafted,
    gpu_node,
    gpu_place,
    labelled,
    place,
    recorded,
)

from assay import catalogue, sites
from assay.describe import described, slurm, written


def test_nodes_with_one_kernel_are_parts_of_one_machine():
    here, there = recorded()
    assert (here["host"], there["host"]) == ("node01", "node02")
    assert place().together
    for key, value in (
        ("started", there["kernel"]["started"] + 1),
        ("switches", there["kernel"]["switches"] * 2),
        ("started", None),
    ):
        other = {**there, "kernel": {**there["kernel"], key: value}}
        assert not place(answers=[here, other]).together
    assert not place(answers=[here]).together
    made = by_name(drafted(place(answers=[here])))
    assert made["intra-node"]["extras"]["memory_fraction"] == 0.8
    assert "cores_per_node" not in made["ethernet"]["extras"]


def test_an_answer_that_is_cut_is_not_read():
    with pytest.raises(ValueError):
        described.answers(labelled((DATA / "node01.txt").read_text()[:900]))
    assert described.answers("srun: error: Unable to allocate resources\n") == []


def test_the_emulated_cluster():
    made = drafted(place(), osu_py="python3 osu_{benchmark}.py")
    partitions = by_name(made)
    assert {name: each["features"] for name, each in partitions.items()} == {
        "intra-node": ["intra-node", "posix", "sysv", "cma", "tcp"],
        "ethernet": ["inter-node", "ethernet", "tcp"],
        "tmpfs": ["storage"],
        "scratch": ["storage"],
    }
    said = "the ranks on one node (processors: 2, sockets: 1, NUMA nodes: 1)"
    assert partitions["intra-node"]["descr"] == said
    extras = partitions["ethernet"]["extras"]
    assert extras["network_device"] == "eth0" and extras["nodes"] == 4
    assert extras["memory_bytes"] == 5514 << 20  # Slurm's; the node has more
    assert partitions["scratch"]["extras"]["directory"] == "/var/tmp/assay-vcluster/scratch"
    assert made.stack["features"] == [
        *("mpi", "ucx", "netpipe", "ucx-perftest", "hpcc", "iozone", "osu-py")
    ]
    assert made.stack["extras"]["ucx_version"] == "1.13.1"
    assert made.common["batch"]["processor"]["num_cpus"] == 2
    assert [gap.partition(":")[0] for gap in made.gaps] == ["stack system", "partition ethernet"]


def test_every_word_is_one_of_the_vocabulary():
    known = sites.vocabulary(ROOT / "site-config/vocabulary.yaml")
    for made in (drafted(place()), drafted(gpu_place(), place())):
        for each in by_name(made).values():
            assert {*each["features"]} <= {*known["partition"]["features"]}
            assert {*each["extras"]} <= {*known["partition"]["extras"]}
        assert {*made.stack["features"]} <= {*catalogue.WORDS}
        assert {*made.stack["extras"]} <= {*known["environment"]["extras"]}


def test_a_cluster_with_gpus_infiniband_and_lustre():
    made = drafted(gpu_place(), access=["--account=hpc"])
    partitions = by_name(made)
    assert [*partitions] == [
        *("intra-node", "infiniband", "ethernet", "gpu", "gpu-infiniband", "lustre")
    ]
    assert partitions["infiniband"]["features"] == ["inter-node", "infiniband", "rc_mlx5"]
    assert partitions["infiniband"]["extras"]["hardware"] == {"link": "infiniband-edr"}
    assert "pml" not in partitions["infiniband"]["extras"]
    gpu = partitions["gpu"]
    assert gpu["features"] == ["intra-node", "gpu", "cuda", "nvlink"]
    assert gpu["devices"] == [{"type": "gpu", "num_devices": 3}]
    assert gpu["resources"] == described.GPU_RESOURCE
    assert gpu["extras"]["hardware"] == {"gpu": "v100-sxm2-32gb", "link": "nvlink2-2-links"}
    assert partitions["lustre"]["features"] == ["storage", "shared"]
    assert partitions["lustre"]["extras"]["file_system"] == "lustre"
    assert partitions["lustre"]["extras"]["directory"] == "/lustre/users/me"
    assert made.common["gpu"]["access"] == ["--partition=gpu", "--exclusive", "--account=hpc"]
    assert made.common["gpu"]["processor"]["num_cpus_per_socket"] == 24
    said = "\n".join(made.gaps)
    for words in (
        "eno1 states 20000 Mbit/s; whether that was bought is not known",
        "/home (nfs4): no directory on it that assay can write was found",
        "no UCX for cuda was found",
        "health: {port_rate: 100 Gb/sec (4X EDR)}",
    ):
        assert words in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpus": None, "topology_of_gpus": None}, "no driver lists them on gpu01"),
        ({"gpus": "GPU 0: NVIDIA X9000 (UUID: GPU-1)\n"}, "the peak of NVIDIA X9000 is not in"),
        ({"topology": {**dict.fromkeys(TOPOLOGY_KEYS, 2), "cpus": 96}}, "gpu01 has 96"),
        ({"topology": dict.fromkeys(TOPOLOGY_KEYS)}, "does not describe its"),
        ({"clock": {"cpuinfo": "", "base_frequency": None}}, "clock of a core is not known"),
        ({"toward_peer": None, "routes": None, "network": {"infiniband": {}, "interfaces": {}}},
         "no device toward another node was found"),
        ({"network": {"infiniband": {"mlx5_0:1": {**EDR, "link_layer": "Ethernet"}},
                      "interfaces": {}}}, "mlx5_0:1 is RoCE"),
        ({"network": {"infiniband": {"mlx5_0:1": EDR, "mlx5_1:1": EDR}, "interfaces": {}}},
         "2 ports are equal (mlx5_0:1, mlx5_1:1)"),
        ({"file_systems": []}, "no file system of users was found on gpu01"),
        ({"hung": ["ucx_info -d did not end within 20 s"]}, "ucx_info -d did not end"),
        ({"programs": {"ucx_info": "/usr/bin/ucx_info"}}, "no mpirun is on PATH of gpu01"),
        ({"said": {"mpirun --version": "Intel(R) MPI Library for Linux* OS, Version 2021.11"}},
         "is not of Open MPI"),
    ],
)  # fmt: skip
def test_what_cannot_be_found_out_is_said_with_what_to_do(change, says):
    answers = [{**gpu_node(), **change}]
    made = drafted(place(GPU_NODES, answers))
    (gap,) = [gap for gap in made.gaps if says in gap]
    assert gap.partition("; ")[2] and "\n" not in gap
    assert says not in "\n".join(drafted(place(GPU_NODES, [gpu_node()])).gaps)


def test_another_mpi_is_named_so_that_its_cases_are_refused():
    said = {"mpirun --version": "HYDRA build details:\n    Version: 4.1.2"}
    made = drafted(place(answers=[{**recorded()[0], "said": said}]))
    assert made.stack["extras"]["mpi"] == "mpich"


def test_the_partitions_of_a_second_place_have_a_prefix():
    second = gpu_place()
    pool = slurm.Pool(slurm.Partition("big.mem"), second.pool.nodes, second.pool.shape)
    made = drafted(place(), described.Place(pool, second.here))
    assert [*by_name(made)][4:6] == ["big-mem-intra-node", "big-mem-infiniband"]
    assert any(gap.startswith("big.mem: ") for gap in made.gaps)
    assert "\n  big.mem:\n    scheduler: " in written.words(HEAD, made)


def test_names_of_file_systems_are_unique():
    mounts = [("/a/scratch", "xfs"), ("/b/scratch", "nfs"), ("/gpu", "xfs"), ("/usr", "xfs")]
    here = {
        **recorded()[0],
        "file_systems": [
            {"mount": mount, "type": kind, "read_only": False, "directory": mount}
            for mount, kind in mounts
        ],
    }
    found = described.storage(place(answers=[here]), set())
    assert [each["name"] for each in found] == ["scratch", "files-b-scratch", "files-gpu"]


def test_nvlinks_count_only_if_all_gpus_are_joined():
    assert described.nvlinks(TOPOLOGY) == 2
    assert described.nvlinks(TOPOLOGY.replace("NV2", "SYS", 1)) == 0
    assert described.nvlinks("") == 0
