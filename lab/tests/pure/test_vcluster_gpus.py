"""GPUs of the emulated cluster: what Slurm is told of them, and what their nodes tell to jobs."""

import re

import pytest
from shell import ROOT


@pytest.fixture
def configured(modules, tmp_path):
    """Configures a cluster of two nodes; returns it, and the text of a file in its etc."""
    layout, slurm = modules("layout"), modules("slurm")

    def configure(number):
        link = layout.Link()
        made = layout.Cluster(2, "assay", 2000, 2000, False, link, [], gpus=number)
        slurm.configure(made)
        return made, lambda name: (tmp_path / "etc" / name).read_text()

    return configure


def lines(text):
    """Keyword -> the words of its lines."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            found.setdefault(line.partition("=")[0], []).append(line.split())
    return found


def test_without_gpus_slurm_hears_nothing_of_them(configured, tmp_path):
    _, etc = configured(2)
    etc_with = lines(etc("slurm.conf"))
    _, etc = configured(0)
    assert not re.search(r"Gres|=gpu", etc("slurm.conf"))
    assert not (tmp_path / "etc/gres.conf").exists(), "a file of an earlier cluster stays"
    without = lines(etc("slurm.conf"))
    assert set(etc_with) - set(without) == {"GresTypes"}
    assert {k for k in without if without[k] != etc_with[k]} == {"NodeName", "PartitionName"}


@pytest.mark.parametrize("number", [1, 2, 8])
def test_each_node_has_its_gpus_and_a_partition_shares_them(configured, number):
    _, etc = configured(number)
    said = lines(etc("slurm.conf"))
    assert said["GresTypes"] == [["GresTypes=gpu"]]
    assert [words[-1] for words in said["NodeName"]] == [f"Gres=gpu:{number}"] * 2
    batch, shared = said["PartitionName"]
    assert "OverSubscribe=EXCLUSIVE" in batch
    assert shared[:2] == ["PartitionName=gpu", "Nodes=node01,node02"]
    assert not any(word.startswith("OverSubscribe") for word in shared)


@pytest.mark.parametrize("number", [1, 2, 8])
def test_slurm_finds_a_file_for_each_device_and_detects_nothing(configured, tmp_path, number):
    _, etc = configured(number)
    first, line = etc("gres.conf").splitlines()
    assert first == "AutoDetect=off"
    words = dict(word.split("=") for word in line.split())
    stem, last = re.fullmatch(r"(\S+)\[0-(\d)\]", words["File"]).groups()
    assert words["Name"] == "gpu"
    assert words["Flags"] == "nvidia_gpu_env", "else Slurm sets variables of other vendors, too"
    files = [tmp_path / "run" / f"gpu{n}" for n in range(number)]
    assert all(file.is_char_device() for file in files), "Slurm 22.05 ignores any other file"
    assert (stem, int(last)) == (str(tmp_path / "run/gpu"), number - 1)


def test_a_node_says_how_many_devices_it_has_and_which_faults(configured, modules):
    gpus = modules("gpus")
    cluster, _ = configured(2)
    assert gpus.variables("node02") == {"GPUEMU_DEVICES": "2"}
    assert gpus.variables("login") == {}
    gpus.disturb(cluster, "node02", "ipc-open")
    gpus.disturb(cluster, "node02", "p2p:0-1")
    assert gpus.variables("node02")["GPUEMU_FAULT"] == "ipc-open,p2p:0-1"
    assert gpus.variables("node01") == {"GPUEMU_DEVICES": "2"}
    gpus.mend(cluster, "node02")
    assert gpus.variables("node02") == {"GPUEMU_DEVICES": "2"}


@pytest.mark.parametrize("what", ["ipc-shut", "ipc-open,", "ipc-open\nX=1", "", "p2p:0-"])
def test_an_unknown_fault_of_a_gpu_is_refused_with_those_that_exist(configured, modules, what):
    gpus, layout = modules("gpus"), modules("layout")
    cluster, _ = configured(2)
    with pytest.raises(layout.Refusal, match=r"docs/vgpu\.md describes ipc-open.*p2p.*ecc"):
        gpus.disturb(cluster, "node02", what)
    assert gpus.variables("node02") == {"GPUEMU_DEVICES": "2"}


def test_a_fault_of_gpus_on_a_cluster_without_is_refused(configured, modules):
    cluster, _ = configured(0)
    with pytest.raises(
        modules("layout").Refusal, match="no GPUs; type: lab/vcluster/vcluster up --gpus"
    ):
        modules("gpus").disturb(cluster, "node02", "ipc-open")
    assert modules("gpus").variables("node02") == {}


def test_the_faults_that_can_be_injected_are_those_that_the_emulated_gpu_looks_for(modules):
    known = modules("gpus").faults()
    sources = "".join(file.read_text() for file in (ROOT / "lab/vgpu").glob("*.c"))
    assert set(re.findall(r'\bnode_fault\w*\("([\w-]+)"', sources)) <= set(known)


@pytest.mark.parametrize("what", ["ecc", "p2p", "p2p:0-1", "ecc:1"])
def test_a_fault_may_be_of_one_device_or_of_a_pair(configured, modules, what):
    cluster, _ = configured(2)
    modules("gpus").disturb(cluster, "node01", what)
    assert modules("gpus").variables("node01")["GPUEMU_FAULT"] == what
