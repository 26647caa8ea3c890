"""From the answers of Slurm and of nodes to the files of a site.

The answers in tests/data/site-new are recorded. What the emulated cluster does not have (GPUs,
InfiniBand, Lustre, modules, nodes that are down) is written here by hand, after the manual pages.
"""

import copy
import re

import pytest
from shell import ROOT

pytest.importorskip("reframe")

from assay import catalogue, sites
from assay.judge import References, hardware, peak
from assay.onnode import inventory
from assay.sites import auto, listing, new
from assay.sites.new import draft, facts, gpus, modules, slurm, storage, written

DATA = ROOT / "tests/data/site-new"
KNOWN = hardware(ROOT / "site-config" / "mine")
PARTITIONS = (DATA / "partitions.txt").read_text()
NODES = (DATA / "nodes.txt").read_text()
HEAD = written.Head("mine", ["login$"], "nomod", "2026-11-23", ["node01"])


def recorded():
    return facts.answers((DATA / "node02.txt").read_text() + (DATA / "node01.txt").read_text())


def place(nodes=NODES, answers=None):
    """The emulated cluster, or the made one: its partition has the name `gpu`."""
    name = "batch" if "Partitions=batch" in nodes else "gpu"
    (partition,) = slurm.partitions(PARTITIONS.replace("=batch", f"={name}"))
    pool = slurm.pool(partition, slurm.nodes(nodes))
    return facts.Place(pool, *(answers or recorded()))


def drafted(*places, **more):
    return draft.of(places, KNOWN, **{"scheduler": "squeue", "launcher": "srun", **more})


TOPOLOGY_KEYS = ("cpus", "cores", "sockets", "numa_nodes")

#: Made: a node with three V100, NVLink, EDR and Lustre.
TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tCPU Affinity
GPU0\t X \tNV2\tNV2\t0-23
GPU1\tNV2\t X \tNV2\t0-23
GPU2\tNV2\tNV2\t X \t0-23
"""
EDR = {"rate": "100 Gb/sec (4X EDR)", "state": "4: ACTIVE", "link_layer": "InfiniBand"}
GPU_NODES = "".join(
    NODES.splitlines(keepends=True)[0]
    .replace("node01", f"gpu{number:02}")
    .replace("Partitions=batch", "Partitions=gpu")
    .replace("Gres=(null)", "Gres=gpu:v100:3(S:0-1)")
    .replace("Sockets=1", "Sockets=2")
    .replace("CoresPerSocket=2", "CoresPerSocket=24")
    .replace("RealMemory=5514", "RealMemory=190000")
    for number in range(1, 9)
)


def gpu_node():
    made = copy.deepcopy(recorded()[0])
    listing = "".join(f"GPU {n}: Tesla V100-SXM2-32GB (UUID: GPU-{n})\n" for n in range(3))
    made.update(
        host="gpu01",
        memory=200 << 30,
        gpus=listing,
        topology_of_gpus=TOPOLOGY,
        topology={"cpus": 48, "cores": 48, "sockets": 2, "numa_nodes": 2},
        physical=["eno1"],
        toward_peer="eno1",
        ucx_devices=[*made["ucx_devices"], "rc_mlx5/mlx5_0:1", "tcp/eno1"],
    )
    made["network"] = {
        "infiniband": {"mlx5_0:1": EDR},
        "interfaces": {"eno1": {"state": "up", "mtu": "1500", "speed_mbit": "10000"}},
    }
    made["file_systems"] = [
        {"mount": "/lustre", "type": "lustre", "read_only": False, "directory": "/lustre/users/me"},
        {"mount": "/home", "type": "nfs4", "read_only": False, "directory": None},
        {"mount": "/", "type": "xfs", "read_only": False, "directory": "/home/me"},
    ]
    made["programs"] = {**made["programs"], "osu_latency": "/opt/osu/osu_latency"}
    return made


def gpu_place():
    other = copy.deepcopy(gpu_node())
    other["kernel"]["started"] += 7
    return place(GPU_NODES, [gpu_node(), other])


def by_name(made):
    return {each["name"]: each for every in made.partitions.values() for each in every}


# --- Slurm ----------------------------------------------------------------------------------------


def test_slurm_of_the_emulated_cluster():
    (batch,) = slurm.partitions(PARTITIONS)
    assert batch == slurm.Partition("batch", True, True, (), "UNLIMITED")
    nodes = slurm.nodes(NODES)
    assert [node.name for node in nodes] == ["node01", "node02", "node03", "node04"]
    assert nodes[1].address == "10.77.0.3"
    pool = slurm.pool(batch, nodes)
    assert pool.shape == auto.Nodes("batch", 4, 1, 2, 1, 5514 << 20, 0)
    assert len(pool.up) == 4 and pool.others == ()
    assert auto.scheduler((DATA / "config.txt").read_text()) == "squeue"
    assert auto.pmix((DATA / "mpi-list.txt").read_text())


def test_the_largest_group_of_alike_nodes_counts_and_the_others_are_said():
    lines = NODES.splitlines(keepends=True)
    lines[0] = (
        lines[0]
        .replace("RealMemory=5514", "RealMemory=9000")
        .replace("AvailableFeatures=(null)", "AvailableFeatures=fat,new")
    )
    lines[1] = lines[1].replace("State=ALLOCATED", "State=IDLE+DRAIN Reason=State=IDLE, they say")
    lines.append("NodeName=cloud1 State=IDLE+CLOUD+POWERED_DOWN Partitions=batch\n")
    pool = slurm.pool(slurm.partitions(PARTITIONS)[0], slurm.nodes("".join(lines)))
    assert [node.name for node in pool.nodes] == ["node02", "node03", "node04"]
    assert [node.name for node in pool.up] == ["node03", "node04"]
    assert pool.others == ("node01: 2 processors, 9000 MiB; features fat, new",)
    said = "\n".join(map(str, drafted(facts.Place(pool, *recorded())).gaps))
    assert "node02 take no jobs (IDLE+DRAIN)" in said and "not described: node01" in said


@pytest.mark.parametrize(
    ("state", "takes"),
    [
        *((state, True) for state in ("IDLE", "MIXED", "ALLOCATED", "IDLE+CLOUD")),
        *((state, False) for state in ("IDLE*", "DOWN", "IDLE+DRAIN", "MIXED+MAINTENANCE", "")),
        ("DOWN+NOT_RESPONDING", False),
    ],
)
def test_a_state_that_takes_jobs(state, takes):
    assert slurm.takes_jobs(state) is takes


def test_limits_of_a_partition_are_said():
    listing = PARTITIONS.replace("AllowAccounts=ALL", "AllowAccounts=physics")
    (batch,) = slurm.partitions(listing)
    assert batch.limits == ("AllowAccounts=physics",)
    listing = PARTITIONS.replace("State=UP", "State=INACTIVE")
    assert not slurm.partitions(listing)[0].open
    assert slurm.partitions("slurm_load_partitions: Unable to contact slurm controller") == []


def chosen(*names, wanted=(), gaps=None):
    listing = "".join(
        PARTITIONS.replace("=batch", f"={name}").replace("Default=YES", f"Default={default}")
        for name, default in names
    )
    nodes = slurm.nodes(NODES.replace("Partitions=batch", "Partitions=batch,debug"))
    gaps = [] if gaps is None else gaps
    return [
        pool.partition.name for pool in new.chosen(slurm.partitions(listing), nodes, wanted, gaps)
    ]


def test_the_default_partition_comes_first_and_one_with_the_same_nodes_is_left_out():
    gaps = []
    both = ("debug", "NO"), ("batch", "YES"), ("empty", "NO")
    assert chosen(*both, gaps=gaps) == ["batch"]
    assert [gap.where for gap in gaps] == [f"partition {n} of Slurm" for n in ("debug", "empty")]
    assert chosen(*both, wanted=["debug", "batch", "debug"]) == ["debug", "batch"]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("bach", "--partition: Slurm has no 'bach'; did you mean 'batch'?"),
        ("zzz", "--partition: Slurm has no 'zzz'; it has batch, empty"),
        ("empty", "--partition: no node of 'empty' takes jobs now"),
    ],
)
def test_a_partition_that_cannot_be_had_is_one_line(wanted, says):
    with pytest.raises(new.NewSiteError, match=re.escape(says)) as refused:
        chosen(("batch", "YES"), ("empty", "NO"), wanted=[wanted])
    assert "\n" not in str(refused.value)


# --- modules --------------------------------------------------------------------------------------

#: Made after the documentation of Lmod and of Environment Modules.
LMOD = """\
Modules based on Lua: Version 8.7.32  2023-08-28 12:42 -05:00
    by Robert McLay mclay@tacc.utexas.edu

/opt/modulefiles:
gcc/
gcc/13.2.0
openmpi/
openmpi/4.1.6
openmpi/5.0.5(default)
osu-micro-benchmarks/7.5
cuda/12.4
"""
TCL = """\
Modules Release 5.3.1 (2023-06-27)

/usr/share/modules/modulefiles:
dot
mpi/openmpi-x86_64
"""


def test_modules():
    names = modules.available(LMOD)
    assert names == [
        *("gcc/13.2.0", "openmpi/4.1.6", "openmpi/5.0.5", "osu-micro-benchmarks/7.5", "cuda/12.4")
    ]
    assert modules.system(LMOD) == "lmod"
    assert modules.that_bring_mpi(names) == ["openmpi/4.1.6", "openmpi/5.0.5"]
    assert modules.that_bring_cuda(names) == ["cuda/12.4"]
    assert modules.that_bring_programs(names) == ["osu-micro-benchmarks/7.5"]
    assert modules.unknown(["openmpi", "cuda/12.4"], names) is None
    assert modules.unknown(["cuda/12.4", "openmpi/5.0.6"], names) == "openmpi/5.0.6"
    assert modules.system(TCL) == "tmod4"
    assert modules.that_bring_mpi(modules.available(TCL)) == ["mpi/openmpi-x86_64"]
    assert modules.system(TCL.replace("5.3.1", "3.2.10")) == "tmod32"
    assert modules.system("bash: line 1: module: command not found") == "nomod"


# --- nodes ----------------------------------------------------------------------------------------


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
        facts.answers((DATA / "node01.txt").read_text()[:900])
    assert facts.answers("srun: error: Unable to allocate resources\n") == []


def test_the_emulated_cluster():
    made = drafted(place(), osu_py="python3 osu_{benchmark}.py")
    partitions = by_name(made)
    assert {name: each["features"] for name, each in partitions.items()} == {
        "intra-node": ["intra-node", "posix", "sysv", "cma", "tcp"],
        "ethernet": ["inter-node", "ethernet", "tcp"],
        "tmpfs": ["storage", "tmpfs"],
        "scratch": ["storage", "xfs"],
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
    assert made.proposals == []
    assert [gap.where for gap in made.gaps] == ["stack system", "partition ethernet"]


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
    assert gpu["resources"] == auto.GPU_RESOURCE
    assert gpu["extras"]["hardware"] == {"gpu": "v100-sxm2-32gb", "link": "nvlink2-2-links"}
    assert partitions["lustre"]["features"] == ["storage", "lustre", "shared"]
    assert partitions["lustre"]["extras"]["directory"] == "/lustre/users/me"
    assert made.common["gpu"]["access"] == ["--partition=gpu", "--exclusive", "--account=hpc"]
    assert made.common["gpu"]["processor"]["num_cpus_per_socket"] == 24
    said = "\n".join(map(str, made.gaps))
    for words in (
        "eno1 states 10000 Mbit/s; whether that was bought is not known",
        "/home (nfs4): no directory on it that assay can write was found",
        "no UCX for cuda was found",
        "health: {port_rate: 100 Gb/sec (4X EDR)}",
    ):
        assert words in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gpus": None, "topology_of_gpus": None}, "no driver lists them on gpu01"),
        ({"gpus": "GPU 0: NVIDIA X9000 (UUID: GPU-1)\n"}, "the peak of x9000 is not in"),
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
    (gap,) = [gap for gap in made.gaps if says in gap.what]
    assert gap.do and "\n" not in str(gap)
    assert says not in "\n".join(map(str, drafted(place(GPU_NODES, [gpu_node()])).gaps))


def test_another_mpi_is_named_so_that_its_cases_are_refused():
    said = {"mpirun --version": "HYDRA build details:\n    Version: 4.1.2"}
    made = drafted(place(answers=[{**recorded()[0], "said": said}]))
    assert made.stack["extras"]["mpi"] == "mpich"


def test_the_partitions_of_a_second_place_have_a_prefix():
    second = gpu_place()
    pool = slurm.Pool(
        slurm.Partition("big.mem", False, True, (), ""), second.pool.nodes, second.pool.shape
    )
    made = drafted(place(), facts.Place(pool, second.here))
    assert [*by_name(made)][4:6] == ["big-mem-intra-node", "big-mem-infiniband"]
    assert any(str(gap).startswith("big.mem: ") for gap in made.gaps)
    assert "NODE_BIG_MEM = {" in written.reframe(HEAD, made)


def test_names_of_file_systems_are_unique():
    mounts = [("/a/scratch", "xfs"), ("/b/scratch", "nfs"), ("/gpu", "xfs"), ("/usr", "xfs")]
    here = {
        **recorded()[0],
        "file_systems": [
            {"mount": mount, "type": kind, "read_only": False, "directory": mount}
            for mount, kind in mounts
        ],
    }
    found = storage.partitions(place(answers=[here]), set(), [])
    assert [each["name"] for each in found] == ["scratch", "files-b-scratch", "files-gpu"]


def test_nvlinks_count_only_if_all_gpus_are_joined():
    assert gpus.nvlinks(TOPOLOGY) == 2
    assert gpus.nvlinks(TOPOLOGY.replace("NV2", "SYS", 1)) == 0
    assert gpus.nvlinks("") == 0


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [drafted(place()), drafted(gpu_place(), place(), modules=["a/1"])])
def test_the_file_of_the_site_has_what_was_found(made, monkeypatch):
    text = written.reframe(HEAD, made)
    assert max(map(len, text.splitlines())) <= 100
    given = {}
    monkeypatch.setattr(sites, "configuration", lambda *_, **more: given.update(more))
    exec(compile(text, "reframe.py", "exec"), {"__file__": "reframe.py"})
    (system,) = given["systems"]
    (environment,) = given["environments"]
    assert (system["name"], system["hostnames"]) == ("mine", ["login$"])
    assert environment == made.stack
    wanted = [
        {**made.common[slurm_name], **each}
        for slurm_name, every in made.partitions.items()
        for each in every
    ]
    assert system["partitions"] == wanted
    assert f"# Stacks: {made.stack['name']}\n" in text
    plain = " ".join(text.replace("\n#", " ").split())
    for gap in made.gaps:
        assert " ".join(str(gap).split()) in plain


def references(tmp_path, text):
    (tmp_path / "site-config/mine").mkdir(parents=True, exist_ok=True)
    for name in ("ratios.yaml", "hardware.yaml"):
        link = tmp_path / "site-config" / name
        link.exists() or link.symlink_to(ROOT / "site-config" / name)
    path = tmp_path / "site-config/mine/references.yaml"
    path.write_text(text)
    return References.load(path)


CASE = {
    **{"partition": "infiniband", "environ": "system", "test": "Osu", "benchmark": "bw"},
    "transport": "rc_mlx5",
}


def test_a_proposal_judges_nothing_until_somebody_takes_its_mark_away(tmp_path):
    made = drafted(gpu_place())
    assert [each.case["partition"] for each in made.proposals] == ["infiniband", "ethernet", "gpu"]
    without = written.references(HEAD, drafted(place(answers=recorded()[:1])))
    assert "No proposal" in without
    of_ratios = references(tmp_path, without).judged
    text = written.references(HEAD, made)
    loaded = references(tmp_path, text)
    assert loaded.judged == of_ratios > 0
    found = loaded.find(CASE, "bandwidth_1MiB", "MB/s", peak=12500)
    assert found.why == "nothing was measured yet; type assay calibrate --site mine"

    marked = re.compile(r"^#(?=  )", re.MULTILINE)
    loaded = references(tmp_path, marked.sub("", text))
    assert loaded.judged == of_ratios + len(made.proposals)
    found = loaded.find(CASE, "bandwidth_1MiB", "MB/s", peak=12500)
    assert found.value == 0.95 * 12500
    assert found.upper_bound <= 12500 * 1.001
    assert found.source.startswith("proposal, not measured: 0.95 of the peak of infiniband-edr")


def test_a_site_with_gpus_and_modules_is_accepted(tmp_path, monkeypatch):
    site = tmp_path / "site-config/mine"
    site.mkdir(parents=True)
    for path in (ROOT / "site-config").glob("*.yaml"):
        (site.parent / path.name).symlink_to(path)
    made = drafted(gpu_place(), place(), modules=["openmpi/5.0.5"])
    head = written.Head("mine", ["login[0-9]+$"], "lmod", "2026-11-23", ["gpu01", "node01"])
    made_files = {
        "reframe.py": written.reframe(head, made),
        "references.yaml": written.references(head, made),
        "hardware.yaml": written.hardware(head, made),
    }
    assert "ethernet-10gbit" in made_files["hardware.yaml"]
    written.write(site, made_files)
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    configuration, loaded = listing.load(site / "reframe.py")
    lines = listing.describe(configuration, loaded, set(catalogue.WORDS))
    assert "partition gpu: intra-node gpu cuda nvlink" in lines
    assert "partition batch-scratch: storage xfs" in lines
    assert configuration["environments"][0]["modules"] == ["openmpi/5.0.5"]


@pytest.mark.parametrize(
    ("rate", "link", "bandwidth"),
    [
        ("100 Gb/sec (4X EDR)", "infiniband-edr", 12500),
        ("56 Gb/sec (4X FDR)", "infiniband-fdr", 6818),
        ("100 Gb/sec (2X HDR)", "infiniband-hdr-100gbit", 12500),
        ("100 Gb/sec", "infiniband-100gbit", 12500),
    ],
)
def test_a_link_has_the_rate_that_its_port_states(tmp_path, rate, link, bandwidth):
    network = {"infiniband": {"mlx5_0:1": {**EDR, "rate": rate}}, "interfaces": {}}
    made = drafted(place(GPU_NODES, [{**gpu_node(), "network": network, "toward_peer": None}]))
    named = by_name(made)["infiniband"]["extras"]["hardware"]
    assert named == {"link": link}
    site = tmp_path / "site-config/mine"
    site.mkdir(parents=True)
    (site.parent / "hardware.yaml").symlink_to(ROOT / "site-config/hardware.yaml")
    text = written.hardware(HEAD, made)
    assert bool(text) is (link not in KNOWN["link"])
    if text:
        (site / "hardware.yaml").write_text(text)
    assert peak(site, named, "link", "bandwidth") == bandwidth


def test_ratios_are_included_only_where_each_of_them_applies(tmp_path):
    # UcxPerftest and SharedMemoryAgainstTcp would have no case: no transport of UCX is known.
    answers = [{**recorded()[0], "ucx_devices": []}]
    text = written.references(HEAD, drafted(place(answers=answers)))
    assert references(tmp_path, text).judged == 0
    text = written.references(HEAD, drafted(place(answers=recorded()[:1])))
    assert references(tmp_path, text).judged > 0


def test_on_nodes_of_one_machine_nothing_is_judged(tmp_path):
    loaded = references(tmp_path, written.references(HEAD, drafted(place())))
    assert loaded.judged == 0
    found = loaded.find({**CASE, "partition": "ethernet"}, "bandwidth_1MiB", "MB/s")
    assert "one machine" in found.why


def test_a_folder_is_published_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "site-config"
    folder.mkdir()
    (folder / "vocabulary.yaml").touch()
    with pytest.raises(KeyError), written.beside(folder, "mine") as made:
        written.write(made, {"reframe.py": "x"})
        assert (made.parent / "vocabulary.yaml").exists()
        raise KeyError
    assert [*folder.iterdir()] == [folder / "vocabulary.yaml"]
    with written.beside(folder, "mine") as made:
        written.write(made, {"reframe.py": "x"})
        written.publish(made, folder / "mine")
    assert (folder / "mine/reframe.py").read_text() == "x"
    # Somebody else was faster.
    with pytest.raises(OSError), written.beside(folder, "mine") as made:
        written.write(made, {"reframe.py": "y"})
        written.publish(made, folder / "mine")
    assert (folder / "mine/reframe.py").read_text() == "x"
    assert {path.name for path in tmp_path.iterdir()} == {"site-config"}


# --- on the node ----------------------------------------------------------------------------------


def test_mounts_that_hold_files_of_users():
    listing = (
        "proc /proc proc rw 0 0\n"
        "10.0.0.1@o2ib:/l /lustre\\040a lustre rw,flock 0 0\n"
        "/dev/sda1 /boot ext4 rw 0 0\n"
        "srv:/home /home nfs4 ro,relatime 0 0\n"
    )
    assert inventory.mounts(listing) == [
        {"mount": "/lustre a", "type": "lustre", "read_only": False},
        {"mount": "/home", "type": "nfs4", "read_only": True},
    ]


def test_a_directory_that_can_be_written_is_found_and_left_as_it_was(tmp_path, monkeypatch):
    for name in inventory.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    mount = inventory.mount_of(str(tmp_path))
    each = {"mount": mount, "type": "ext4", "read_only": False}
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    assert inventory.first_writable(each, "me") == str(tmp_path)
    assert [*tmp_path.iterdir()] == []
    monkeypatch.setattr(inventory, "writable", lambda _: False)
    assert inventory.first_writable(each, "me") is None


def test_the_topology_of_a_node(tmp_path):
    for cpu, (package, core) in enumerate([(0, 0), (0, 0), (1, 0), (1, 0)]):
        folder = tmp_path / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text(f"{core}\n")
    (tmp_path / "node/node0").mkdir(parents=True)
    assert inventory.topology(str(tmp_path)) == {
        "cpus": 4, "cores": 2, "sockets": 2, "numa_nodes": 1
    }  # fmt: skip
    (tmp_path / "cpu/cpu3/topology/physical_package_id").unlink()
    assert inventory.topology(str(tmp_path))["sockets"] is None


def test_gpus_that_only_the_driver_states(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory.provenance, "output", lambda *_, **__: None)
    folder = tmp_path / "0000:04:00.0"
    folder.mkdir()
    # Made after the README of NVIDIA's driver.
    (folder / "information").write_text("Model: \t\t Tesla V100-SXM2-32GB\nGPU UUID: \t GPU-1\n")
    said = inventory.gpus(str(tmp_path))
    assert said == "GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-1)"
    assert gpus.models({"gpus": said, "said": {}}) == ("cuda", ["v100-sxm2-32gb"])
    assert inventory.gpus(str(tmp_path / "nothing")) is None
