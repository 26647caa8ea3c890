"""ASSAY_STACK selects one stack of a site, because ReFrame's -p has no effect with --mode."""

import pytest
from shell import ROOT

pytest.importorskip("reframe")

from reframe.core.exceptions import ConfigError

from assay import sites
from assay.describe import detect, machine

H100 = ROOT / "site-config" / "h100" / "reframe.py"


@pytest.fixture
def configured(monkeypatch, tmp_path):
    """The configuration of a site with two stacks when this stack is asked for."""

    def configuration(stack):
        partitions = [
            {"name": "both", "environs": ["spack", "container"]},
            {"name": "one", "environs": ["spack"]},
        ]
        monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
        monkeypatch.setenv("ASSAY_STACK", stack)
        system = {"name": "h100", "partitions": partitions}
        stacks = [{"name": name, "features": ["mpi"]} for name in ("spack", "container")]
        found = sites.site_configuration(H100, system, stacks)
        (system,) = found["systems"]
        environs = {each["name"]: each["environs"] for each in system["partitions"]}
        return environs, [each["name"] for each in found["environments"]]

    return configuration


def test_without_it_a_site_is_as_it_is(configured):
    environs, stacks = configured("")
    assert environs == {"both": ["spack", "container"], "one": ["spack"]}
    assert stacks == ["spack", "container"]


def test_the_other_stacks_and_partitions_without_any_are_left_out(configured):
    assert configured("container") == ({"both": ["container"]}, ["container"])


def test_an_unknown_stack_is_one_line_with_those_there_are(configured):
    with pytest.raises(ConfigError, match=r"no stack 'spark'.*there are spack, container"):
        configured("spark")


def test_words_of_the_site_itself_are_allowed_and_what_no_test_selects_is_left_out(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    partitions = [
        {
            "name": "node",
            "environs": ["spack", "gnu"],
            "features": ["intra-node", "memory_per_node"],
        },
        {"name": "login", "environs": ["gnu"], "features": ["gpu"], "extras": {"cost": 3}},
    ]
    stacks = [{"name": "spack", "features": ["mpi", "cpe"]}, {"name": "gnu"}]
    found = sites.site_configuration(H100, {"name": "h100", "partitions": partitions}, stacks)
    (system,) = found["systems"]
    assert [(p["name"], p["environs"]) for p in system["partitions"]] == [("node", ["spack"])]
    assert sites.left_out[H100] == [
        "stack gnu is left out: its features name no program that the suite knows",
        "partition login is left out: it has none of intra-node, inter-node, storage",
    ]
    with pytest.raises(ConfigError, match="nothing can run: stack gnu is left out"):
        login = {**partitions[1], "environs": ["gnu"]}
        sites.site_configuration(H100, {"name": "h100", "partitions": [login]}, stacks[1:])


LOCAL = H100.parents[1] / "local" / "reframe.py"


@pytest.fixture
def with_iozone(monkeypatch):
    monkeypatch.setattr(detect, "version", lambda *_: "4.1.4")
    monkeypatch.setattr(detect, "programs", lambda *_: {"netpipe": "NPmpi", "iozone": "iozone"})


def test_a_machine_has_the_programs_of_its_distribution(monkeypatch, with_iozone):
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    found = machine.local_stack(LOCAL)
    assert found["name"] == "system"
    assert {"netpipe", "iozone"} <= set(found["features"])


def test_with_spack_asked_for_those_that_spack_built_and_what_needs_no_mpi(
    monkeypatch, tmp_path, with_iozone
):
    monkeypatch.setenv("ASSAY_STACK", "spack")
    monkeypatch.setenv("ASSAY_SPACK_HOME", str(tmp_path))
    found = machine.local_stack(LOCAL)
    assert found["name"] == "spack"
    assert {"osu", "btio", "hpl", "iozone"} <= set(found["features"])
    # With the mpirun of another MPI it would start as several worlds of one rank.
    assert "netpipe" not in found["features"]
    assert "of the distribution: iozone" in found["extras"]["provenance"]
    assert "make spack SITE=debian12" in found["prepare_cmds"][0]
