"""`assay site new` on the emulated cluster: the folder loads, and runs smoke without an edit.

With `--from` it goes from a ReFrame configuration that a site has to a run that is accepted. The
numbers are those of a model (modelled.py), because the nodes share one host.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from bench import PORTS, REFRAME
from emulated import UNJUDGED, reason_to_skip, up
from modelled import Model
from shell import ROOT

from assay.describe import detect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]

#: Tests that must have run, each on a partition that the command described.
RAN = {
    *(("Tournament", "ethernet"), ("Census", "ethernet"), ("NetPipe", "ethernet")),
    *(("NetPipe", "intra-node"), ("UcxPerftest", "intra-node"), ("NodeHealth", "intra-node")),
    *(("Iozone", "scratch"), ("EachNode", "scratch"), ("Iozone", "tmpfs")),
}


@pytest.fixture(scope="module")
def cluster():
    with up("--nodes", "4") as made:
        yield made


@pytest.fixture(scope="module")
def checkout(cluster):
    """A checkout without sites, which belongs to the user who runs jobs."""
    folder = cluster.state / "home/checkout"
    (folder / "site-config").mkdir(parents=True)
    for path in (ROOT / "site-config").glob("*.yaml"):
        shutil.copy(path, folder / "site-config")
    shutil.copy(ROOT / ".git_archival.txt", folder)
    for name in ("reframe", "requirements"):  # the record of a node names a lock
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / ".cache").mkdir()
    (folder / ".cache/osu-py").symlink_to(PORTS)
    user = json.loads((cluster.state / "cluster.json").read_text())
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user["uid"], user["gid"], follow_symlinks=False)
    return folder


def on_login(cluster, folder, *words, results="results"):
    """Runs a command on the login machine, as the user who runs jobs."""
    variables = [f"PYTHONPATH={ROOT}/src", f"ASSAY_RESULTS={cluster.state}/home/{results}"]
    words = ("env", "-C", str(folder), *variables, "RFM_COLORIZE=n", *words)
    return cluster("run", "login", "--", *words, check=False)


@pytest.fixture(scope="module")
def site(cluster, checkout):
    """The folder that the command has written, and what the command printed."""
    assay = (sys.executable, "-m", "assay")
    done = on_login(cluster, checkout, *assay, "site", "new", "mine")
    assert done.returncode == 0, done.stderr
    return checkout / "site-config/mine", done.stdout


def test_the_folder_loads_and_says_what_it_does_not_know(cluster, checkout, site):
    folder, said = site
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {
        "reframe.py", "assay.yaml", "references.yaml", "promise.yaml"
    }  # fmt: skip
    assert "eth0 is no device of hardware, so the rate of the link is not known" in said
    listed = on_login(cluster, checkout, sys.executable, "-m", "assay", "sites", "mine")
    assert listed.returncode == 0, listed.stdout
    for name in ("intra-node", "ethernet", "scratch"):
        assert f"    {name}, stack system: " in listed.stdout
    text = (folder / "assay.yaml").read_text()
    assert "features: [inter-node, ethernet, tcp]" in text
    assert f"directory: {cluster.state}/scratch" in text
    assert "OMPI_MCA_mpi_yield_when_idle" in text, "the nodes share one machine"


def test_a_second_site_of_the_same_name_is_refused(cluster, checkout, site):
    folder, _ = site
    before = (folder / "assay.yaml").read_bytes()
    done = on_login(cluster, checkout, sys.executable, "-m", "assay", "site", "new", "mine")
    assert done.returncode == 2
    assert done.stderr == (
        "assay site new: site-config/mine: is there already; choose another name, or delete it\n"
    )
    assert (folder / "assay.yaml").read_bytes() == before


def test_it_runs_smoke_without_an_edit(cluster, checkout, site):
    folder, _ = site
    path = f"{cluster.without_kernel_log()}:{Model(cluster).path()}"
    done = on_login(
        cluster,
        *(checkout, "env", f"PATH={path}"),
        *(str(REFRAME), "-C", f"{folder}/reframe.py", "-c", "reframe"),
        *("-R", "-r", "--mode", "smoke", *UNJUDGED),
    )
    ran, failed = ended(cluster.state / "home/results")
    assert failed == {}, done.stdout[-4000:]
    assert ran >= RAN


#: What a site has that runs ReFrame: no word of Assay, and a logger of its own. The variables are
#: those of a module: the nodes share cores, so waiting ranks yield, and none is bound.
THEIRS = {
    "systems": [
        {
            "name": "hydra",
            "hostnames": ["login"],
            "partitions": [
                {"name": "login", "scheduler": "local", "launcher": "local", "environs": ["gnu"]},
                {
                    "name": "batch",
                    "scheduler": "squeue",
                    "launcher": "srun",
                    "access": ["--partition=batch", "--licenses=host:1"],
                    "environs": ["gnu", "openmpi"],
                },
            ],
        }
    ],
    "environments": [
        {"name": "gnu", "cc": "gcc"},
        {
            "name": "openmpi",
            "env_vars": [
                ["SLURM_MPI_TYPE", "pmix"],
                ["OMPI_MCA_mpi_yield_when_idle", "1"],
                ["OMPI_MCA_hwloc_base_binding_policy", "none"],
            ],
        },
    ],
    "logging": [{"handlers_perflog": [{"type": "filelog", "prefix": "%(check_system)s"}]}],
}

#: What a person writes, each in place of the line that the command wrote: beginning -> line.
BY_HAND = {
    "  #? link-batch:": "  link-batch: {of: batch, features: [inter-node, ethernet, tcp], "
    "extras: {network_device: eth0, nodes: 4, cores_per_node: 1}}",
    "  openmpi:": "  openmpi: {features: [mpi, ucx, ucx-perftest], "
    'extras: {ucx_version: "VERSION"}}',
}


def test_a_site_that_has_reframe_goes_from_nothing_to_an_accepted_run(cluster):
    folder = cluster.state / "home/theirs"
    cluster("run", "login", "--", "mkdir", str(folder))
    (folder / "settings.py").write_text(f"site_configuration = {THEIRS!r}\n")
    assay = (sys.executable, "-m", "assay")
    config = ("-C", "assay_settings.py")
    done = on_login(cluster, folder, *assay, "site", "new", "hydra", "--from", "settings.py")
    assert done.returncode == 0, done.stderr
    version = detect.version("ucx_version")
    lines = (folder / "assay.yaml").read_text().splitlines()
    for beginning, line in BY_HAND.items():
        (where,) = (n for n, old in enumerate(lines) if old.startswith(beginning))
        lines[where] = line.replace("VERSION", version)
    (folder / "assay.yaml").write_text("\n".join(lines) + "\n")
    done = on_login(cluster, folder, *assay, "check", *config)
    assert done.returncode == 0, done.stderr
    assert ": add " not in done.stdout
    assert on_login(cluster, folder, *assay, "expect", *config).returncode == 0

    path = f"{cluster.without_kernel_log()}:{Model(cluster).path()}"
    done = on_login(
        cluster,
        *(folder, "env", f"PATH={path}", str(REFRAME), *config, "--system=hydra"),
        *("-c", str(ROOT / "reframe"), "-R", "-r", "--mode", "smoke"),
        results="theirs/results",
    )
    ran, failed = ended(folder / "results")
    assert failed == {}, done.stdout[-4000:]
    assert ran >= {
        ("Census", "link-batch"),
        ("Tournament", "link-batch"),
        ("UcxPerftest", "node-batch"),
    }
    assert [where for test, where in ran if test == "NodeHealth"] == ["node-batch"]
    if done.returncode:  # a loaded host hid evidence
        assert "INCONCLUSIVE" in done.stdout or "were sent again" in done.stdout, done.stdout[
            -4000:
        ]


def ended(results):
    """Tests that ran, each with its partition; and why others failed, by case."""
    (report,) = (results / "reports").glob("run-report-*.json")
    last = {
        (case["display_name"].split()[0], case["partition"], case["unique_name"]): case
        for part in json.loads(report.read_text())["runs"]  # a launch again has a part of its own
        for case in part["testcases"]
    }
    ran = {key[:2] for key, case in last.items() if case["result"] == "pass" or only_loaded(case)}
    failed = {
        key: case["fail_reason"]
        for key, case in last.items()
        if case["result"] not in ("pass", "skip") and not only_loaded(case)
    }
    return ran, failed


def only_loaded(case):
    """Whether what speaks against a case is what a loaded host may do to a sound cluster.

    It may hide evidence, which decides nothing, and make TCP send again what was only late.
    """
    file = Path(case["stagedir"] or "/nonexistent", "assay.json")
    if case["result"] != "fail" or not file.is_file():
        return False
    record = json.loads(file.read_text())
    problems = record["problems"]
    return record["verdict"] == "INCONCLUSIVE" or (
        bool(problems) and all("segments were sent again" in problem for problem in problems)
    )
