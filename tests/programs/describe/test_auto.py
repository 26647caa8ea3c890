"""Detection on an unprepared cluster, from the output of Slurm, Linux and the driver."""

import json
import runpy
import shutil
import textwrap
from dataclasses import replace

import pytest
from shell import ROOT, SITES, program
from shell import tools as tools_of

pytest.importorskip("reframe")

from reframe.core.exceptions import ConfigError

from assay.describe import ask, auto, described, detect, machine
from assay.describe.slurm import Answers
from assay.fleet.node import provenance
from assay.gpu.accelerator import CUDA
from assay.judge import hardware
from assay.node import answers
from assay.reframe_compat import polling
from assay.sites.site_yaml import SiteFile
from assay.store import promise

PARTITIONS = """\
PartitionName=debug Default=NO State=UP
PartitionName=gpu Default=YES State=UP
"""


def nodes(number, partition, said, state="IDLE"):
    """Lines of `scontrol show node --oneliner` for alike nodes, shortened."""
    shape = "CoresPerSocket={1} Gres={4} RealMemory={3} Sockets={0} State={5} ThreadsPerCore={2}"
    line = shape.format(*said, state)
    return "".join(
        f"NodeName={partition}{n}{state.rstrip('*')} {line} Partitions={partition}\n"
        for n in range(number)
    )


V100 = (2, 24, 1, 192000, "gpu:v100:4(S:0-1)")
A100 = (2, 24, 2, 1024000, "gpu:a100:4,gpu:a100_1g:8,craynetwork:4")
DEBUG = nodes(2, "debug", (1, 8, 1, 16000, "(null)"))
NODES = "".join(
    (
        DEBUG,
        nodes(3, "gpu", V100, "ALLOCATED"),
        nodes(29, "gpu", V100),
        nodes(4, "gpu", V100, "IDLE+DRAIN"),
        nodes(2, "gpu", V100, "IDLE*"),
        nodes(1, "gpu", A100, "MIXED"),
    )
)


def pool(nodes=NODES, wanted=None):
    return auto._pool(Answers(PARTITIONS, nodes), wanted)


def test_alike_nodes_that_take_jobs_are_counted_in_the_default_partition():
    found = pool()
    assert (found.partition.name, len(found.up), found.shape.gpus) == ("gpu", 32, 4)
    assert found.shape.memory_bytes == 192000 << 20
    assert found.shape.processor == {
        "num_cpus": 48,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": 24,
        "num_sockets": 2,
    }


def test_another_partition_and_gpus_of_several_kinds():
    found = pool(wanted="debug")
    assert (len(found.up), found.shape.gpus) == (2, 0)
    shape = pool(nodes(1, "gpu", A100, "MIXED")).shape
    assert (shape.processor["num_cpus"], shape.gpus) == (96, 12)


@pytest.mark.parametrize("said", ["", "slurm_load_partitions: Unable to contact slurm controller"])
def test_where_slurm_does_not_answer_there_is_none(said):
    assert auto._pool(Answers(said, said), None) is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("gpus", "has no 'gpus'; did you mean 'gpu'"), ("debug", "no node of Slurm's 'debug'")],
)
def test_a_partition_that_cannot_be_had_is_one_line(wanted, said):
    with pytest.raises(ConfigError, match=f"ASSAY_PARTITION.*{said}"):
        pool(NODES.replace(DEBUG, DEBUG.replace("IDLE", "DOWN")), wanted)


UP = {"state": "4: ACTIVE", "link_layer": "InfiniBand"}
EDR = {**UP, "rate": "100 Gb/sec (4X EDR)"}


def test_the_fastest_active_port():
    ports = {
        "mlx5_0:1": {**UP, "rate": "56 Gb/sec (4X FDR)"},
        "mlx5_1:2": EDR,
        "mlx5_2:1": {**UP, "rate": "400 Gb/sec (4X NDR)", "state": "1: DOWN"},
        "mlx5_3:1": {**UP, "rate": "200 Gb/sec (4X HDR)", "link_layer": "Ethernet"},
    }
    assert described.fastest(ports) == "mlx5_1:2"
    assert described.fastest({"mlx5_0:1": {**UP, "rate": None}}) is None
    assert described.fastest({}) is None


ROUTES = textwrap.dedent("""\
    Iface\tDestination\tGateway\tFlags
    ib0\t0000010A\t00000000\t0001
    eno1\t00000000\t0100000A\t0003
    """)


def test_the_device_of_the_default_route():
    assert described.default_route(ROUTES) == "eno1"
    assert described.default_route("Iface\tDestination\n") is None


def test_gpus_by_the_names_of_the_catalogue():
    listing = """\
GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-1)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)
  MIG 1g.5gb Device 0: (UUID: MIG-3)
GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-4)
"""
    said = {"gpus": listing, "said": {}}
    names = ["v100-sxm2-32gb", "a100-sxm4-40gb", "h100-sxm5-80gb"]
    assert described.models(said, hardware(ROOT / "site-config/any")) == ("cuda", names)
    assert CUDA.found("NVIDIA-SMI has failed because it couldn't communicate") == []


def test_pmix_of_srun():
    listing = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions"
    assert Answers(mpi=listing).launcher == "srun"
    assert Answers(mpi="MPI plugin types are...\n\tnone\n\tpmi2\n").launcher == "mpirun"
    assert Answers(mpi="srun: error: pmix").launcher == "mpirun"


UCX = "".join(
    f"#      Transport: {name}\n#         Device: {device}\n"
    for name, device in (("posix", "memory"), ("tcp", "lo"), ("rc_mlx5", "mlx5_0:1"))
)


@pytest.fixture
def found(monkeypatch, tmp_path):
    """The configuration of `any`. A test chooses what Slurm and the programs print."""
    site = tmp_path / "site-config" / "any"
    site.mkdir(parents=True)
    real = ROOT / "site-config"
    for name in ("vocabulary.yaml", "hardware", "any-machine.yaml", "any/references.yaml"):
        (site.parent / name).symlink_to(real / name)
    for name in ("IMAGE", "STACK", "PARTITION", "DEVICE", "LAUNCHER", "NODES", "ACCESS"):
        monkeypatch.delenv(f"ASSAY_{name}", raising=False)
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    real_node = provenance.node()

    def configuration(slurm=None, ports=None, programs=None, gpus=None, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        said = {"mpirun --version": "mpirun (Open MPI) 4.1.4", "ucx_info -d": UCX}
        said.update(programs or {})
        answer = lambda *words: said.get(" ".join(words[:2]), "")  # noqa: E731
        network = {"infiniband": ports or {}, "interfaces": {}}
        node = {**real_node, "network": network, "gpus": gpus, "routes": ROUTES}
        monkeypatch.setattr(ask, "slurm", lambda: slurm or Answers())
        monkeypatch.setattr(provenance, "node", lambda: node)
        monkeypatch.setattr(ask, "output", answer)
        monkeypatch.setattr(
            detect, "version", lambda extra, _=answer: detect_version(extra, answer)
        )
        system = auto.any_configuration(site / "reframe.py", SiteFile(machine="detect"))["systems"][
            0
        ]
        return {partition["name"]: partition for partition in system["partitions"]}

    detect_version = detect.version
    return configuration


def test_without_slurm_it_is_this_machine(found):
    partitions = found()
    assert list(partitions) == ["intra-node", "scratch", "tmpfs"]
    assert partitions["intra-node"]["scheduler"] == "local"
    assert partitions["intra-node"]["features"] == ["intra-node", "posix", "tcp"]


SLURM = Answers(
    *(PARTITIONS, NODES, "AccountingStorageType   = accounting_storage/none\n", "\tpmix\n")
)
V100_HERE = "GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-1)\n"


def test_with_slurm_each_link_is_a_partition_and_names_its_hardware(found):
    ports = {"mlx5_0:1": EDR}
    partitions = found(SLURM, ports, gpus=V100_HERE, ASSAY_ACCESS="--account=hpc")
    fabric = partitions["infiniband"]
    assert (fabric["scheduler"], fabric["launcher"]) == ("squeue", "srun")
    assert fabric["access"] == ["--partition=gpu", "--exclusive", "--account=hpc"]
    assert ["SLURM_MPI_TYPE", "pmix"] in fabric["env_vars"]
    assert fabric["features"] == ["inter-node", "infiniband", "rc_mlx5"]
    assert fabric["extras"]["hardware"] == {"link": "infiniband-edr"}
    assert (fabric["extras"]["network_device"], fabric["extras"]["nodes"]) == ("mlx5_0:1", 4)
    assert partitions["ethernet"]["features"] == ["inter-node", "ethernet", "tcp"]
    assert partitions["ethernet"]["extras"]["network_device"] == "eno1"
    node = partitions["intra-node"]
    software = found(SLURM, ports, gpus="GPU 0: EMULATED GPU (UUID: GPU-1)\n")["intra-node"]
    assert software["devices"] == [{"type": "gpu", "num_devices": 4, "arch": "emulated"}]
    assert node["devices"] == [{"type": "gpu", "num_devices": 4}]
    assert node["extras"]["hardware"] == {"gpu": "v100-sxm2-32gb"}
    assert {"gpu", "cuda"} <= {*node["features"]}
    assert "shared" in partitions["scratch"]["features"]
    for partition in partitions.values():
        assert partition["extras"]["memory_bytes"] == 192000 << 20
        assert partition["processor"]["num_cpus"] == 48


def test_gpus_of_amd_are_found_by_their_own_program(found):
    said = "  Uuid:                    GPU-a8\n  Marketing Name:          AMD Instinct MI250X\n"
    node = found(programs={"rocminfo": said})["intra-node"]
    assert node["devices"] == [{"type": "gpu", "num_devices": 1}]
    assert {"gpu", "rocm"} <= {*node["features"]}


def test_a_link_of_unknown_hardware_names_none_and_without_pmix_mpirun_starts_the_ranks(found):
    slurm = replace(SLURM, mpi="\tnone\n", config=ACCOUNTS)
    ports = {"mlx5_0:1": {**UP, "rate": "1600 Gb/sec (4X GDR)"}}
    fabric = found(slurm, ports, ASSAY_NODES="2")["infiniband"]
    assert "hardware" not in fabric["extras"]
    assert (fabric["scheduler"], fabric["launcher"]) == ("slurm", "mpirun")
    assert fabric["extras"]["nodes"] == 2


ACCOUNTS = "AccountingStorageType   = accounting_storage/slurmdbd\n"


@pytest.mark.parametrize("number", ["1", "33", "all"])
def test_a_number_of_nodes_that_cannot_be_had_is_one_line(found, number):
    with pytest.raises(ConfigError, match=f"ASSAY_NODES: '{number}' is not a number from 2 to 32"):
        found(SLURM, ASSAY_NODES=number)


@pytest.mark.parametrize(
    ("there", "said"),
    [(None, "no MPI: mpirun is not on PATH"),
     ("/opt/bin/mpirun", "no MPI that the suite knows: /opt/bin/mpirun --version says 'hello'")],
)  # fmt: skip
def test_without_an_mpi_it_says_what_to_do(found, monkeypatch, there, said):
    monkeypatch.setattr(shutil, "which", lambda name: there)
    with pytest.raises(ConfigError, match=rf"{said}; take an image \(apptainer run .*, or load"):
        found(programs={"mpirun --version": "hello\nworld"})


def test_nothing_starts_ranks_in_an_image(found):
    said = r"ASSAY_IMAGE: neither srun nor .*: apptainer run /x\.sif acceptance"
    with pytest.raises(ConfigError, match=said):
        found(programs={"mpirun --version": "HYDRA"}, ASSAY_IMAGE="/x.sif")


def test_under_another_mpi_the_stack_has_what_is_not_linked_to_open_mpi(monkeypatch, tmp_path):
    """Each rank of such a program would be a world of its own."""
    tools = tools_of(tmp_path / "bin", "sh sed head xargs grep")
    for name in ("hpcc", "xhpl", "iozone"):
        program(tools, name, "")
    program(tools, "mpirun", "echo 'HYDRA build details:'")
    linked = {"hpcc": "libmpi.so.40", "xhpl": "libmpich.so.12"}
    lines = [f"*/{name}) echo '{lib} => /usr/lib/{lib} (0x1)';;" for name, lib in linked.items()]
    program(tools, "ldd", f"case $1 in {' '.join(lines)} esac")
    monkeypatch.setenv("PATH", str(tools))
    stack = machine.local_stack(SITES["local"])
    assert stack["extras"]["mpi"] == "mpich"
    assert {*stack["features"]} - {"osu-py"} == {"mpi", "hpl", "iozone"}
    assert "without hpcc: linked to Open MPI" in stack["extras"]["provenance"]


@pytest.mark.parametrize(
    ("device", "name", "hardware"),
    [
        ("mlx5_0:1", "infiniband", {"link": "infiniband-edr"}),
        ("mlx5_9:1", "infiniband", None),  # of the compute nodes alone
        ("eth7", "ethernet", None),
    ],
)
def test_a_device_that_was_said_is_the_only_link(found, device, name, hardware):
    partitions = found(SLURM, {"mlx5_0:1": EDR}, ASSAY_DEVICE=device)
    assert [each for each in partitions if each in ("infiniband", "ethernet")] == [name]
    extras = partitions[name]["extras"]
    assert (extras["network_device"], extras.get("hardware")) == (device, hardware)
    assert len(partitions[name]["features"]) == 3


def test_a_launcher_that_was_said_is_taken_and_an_unknown_one_refused(found):
    assert found(SLURM, ASSAY_LAUNCHER="mpirun")["intra-node"]["launcher"] == "mpirun"
    with pytest.raises(ConfigError, match="ASSAY_LAUNCHER: 'prun' is neither"):
        found(SLURM, ASSAY_LAUNCHER="prun")


@pytest.mark.parametrize("site", ["vcluster", "ibisco", "h100", "local"])
def test_a_site_measures_one_case_at_a_time(monkeypatch, tmp_path, site):
    """In parallel, a case that waits for another of our cases would be given up as lost."""
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(polling, "one_at_a_time", False)
    runpy.run_path(str(SITES[site]))
    assert polling.one_at_a_time


#: What `vcluster up --nodes 2` notes, as far as its site reads it.
CLUSTER = {"nodes": 2, "accounting": False, "link": {"rate": "1gbit", "delay": 100}}


@pytest.mark.parametrize("gpus", [None, 0, 2])
def test_the_emulated_cluster_has_partitions_of_gpus_only_if_its_nodes_have_gpus(
    monkeypatch, tmp_path, gpus
):
    said = {**CLUSTER, **({} if gpus is None else {"gpus": gpus})}
    (tmp_path / "cluster.json").write_text(json.dumps(said))
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path))
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    loaded = runpy.run_path(str(ROOT / "lab/sites/vcluster/reframe.py"))["site_configuration"]
    (system,) = loaded["systems"]
    found = {p["name"]: p["devices"] for p in system["partitions"] if "devices" in p}
    assert set(found) == ({"gpu", "gpu-inter-node"} if gpus else set())
    assert all(devices[0]["num_devices"] == gpus for devices in found.values())
    assert ("ucx-1-22-0" in [stack["name"] for stack in loaded["environments"]]) == bool(gpus)


def test_the_emulated_cluster_may_lack_each_partition_that_only_an_option_adds(
    monkeypatch, tmp_path
):
    """Otherwise its promise would make a cluster red that was started without the option."""
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path))
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))

    def partitions(**options):
        (tmp_path / "cluster.json").write_text(json.dumps({**CLUSTER, **options}))
        loaded = runpy.run_path(str(ROOT / "lab/sites/vcluster/reframe.py"))
        (system,) = loaded["site_configuration"]["systems"]
        return {each["name"] for each in system["partitions"]}

    plain = partitions()
    promised = promise.load_promise(ROOT / "lab/sites/vcluster/promise.yaml").site.partitions
    assert plain == {*promised}
    for option in ({"gpus": 2}, {"shared": "glusterfs"}, {"between": {"bandwidth": 9, "delay": 9}}):
        assert plain < partitions(**option)


def test_a_slurm_that_hangs_is_not_taken_for_no_slurm(found, monkeypatch):
    """Otherwise, the suite would measure the login node."""
    said = "scontrol show partition did not end within 30 s"
    monkeypatch.setattr(answers, "hung", {"scontrol": said})
    with pytest.raises(ConfigError, match=said):
        found()
