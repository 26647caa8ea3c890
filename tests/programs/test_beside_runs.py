"""Real runs of the suite under made-up ReFrame configurations of sites that have one already."""

import os
import re
import sys

import forked
import pytest
import shell
import yaml
from bench import HELLO, REFRAME, ROOT, live_program, run_reframe
from job_scripts import without_slurm

pytestmark = pytest.mark.slow

SETTINGS = """\
from assay import sites

site_configuration = sites.from_yaml(__file__)
"""

#: Their test for all partitions, and one that asks for a word that Assay has, too.
OWN = """\
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Theirs(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo"
    executable_opts = ["done"]

    @sanity_function
    def done(self):
        return sn.assert_found("done", self.stdout)


@rfm.simple_test
class TheirsOnGpus(Theirs):
    valid_systems = ["+gpu"]
"""

LAUNCHER = """\
import sys
from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher

sys.path.insert(0, "/nowhere")


@register_launcher("own-mpirun")
class Own(JobLauncher):
    def command(self, job):
        return ["mpirun", "-np", str(job.num_tasks)]


"""


def system(*partitions, name="theirs", **more):
    return {"name": name, "hostnames": [".*"], "partitions": list(partitions), **more}


def partition(name, scheduler="local", launcher="local", **more):
    return {"name": name, "scheduler": scheduler, "launcher": launcher, "environs": ["gnu"], **more}


@pytest.fixture
def site(tmp_path):
    """Writes a site; returns its file."""

    def written(systems, places, stacks=None, environments=None, head=LAUNCHER):
        environments = environments or [{"name": "gnu", "cc": "gcc"}]
        theirs = {"systems": systems, "environments": environments}
        (tmp_path / "settings.py").write_text(f"{head}site_configuration = {theirs!r}\n")
        stacks = stacks or {"gnu": {"features": ["mpi", "osu", "hpl"]}}
        words = {"beside": ["settings.py"], "system": "theirs", "places": places}
        words["stacks"] = stacks
        (tmp_path / "assay.yaml").write_text(yaml.safe_dump(words, sort_keys=False))
        recorded = [{"for": {"partition": "*"}, "why": "a test of the suite"}]
        text = yaml.safe_dump({"references": [], "recorded": recorded})
        (tmp_path / "references.yaml").write_text(text)
        (tmp_path / "assay_settings.py").write_text(SETTINGS)
        return tmp_path / "assay_settings.py"

    return written


@pytest.fixture
def ran(tmp_path):
    def run(config, *arguments, **variables):
        path = without_slurm(tmp_path / "slurm")
        variables["RFM_PERFLOG_DIR"] = str(tmp_path / "perflogs")
        return run_reframe(config, tmp_path / "results", *arguments, PATH=path, **variables)

    return run


def test_our_tests_run_at_places_and_theirs_on_their_partitions(site, ran, tmp_path):
    resources = [{"name": name, "options": ["--x"]} for name in ("gpu", "storage", "tcp")]
    config = site(
        [system(partition("batch", features=["gpu", "cuda"], resources=resources))],
        {"node": {"of": "batch", "features": ["intra-node", "posix"]}},
    )
    (tmp_path / "own.py").write_text(OWN)
    run = ran(
        config,
        *("-c", "reframe/node/health.py", "-c", str(tmp_path / "own.py"), "-r"),
        RFM_PREFIX=str(tmp_path),
    )
    places = {}
    for name, _, place in run.cases:
        places.setdefault(name.split()[0], set()).add(place)
    assert places.pop("Theirs") == places.pop("TheirsOnGpus") == {"batch"}
    assert "NodeHealth" in places
    assert set.union(*places.values()) == {"node"}
    assert run.case("NodeHealth").result == "pass"
    # Their lines are on their terminal as ever, and only the tests of Assay have one more.
    assert len(re.findall(r"^\[ +OK \] .* Theirs", run.output, re.M)) == 2
    added = re.findall(r"^[A-Z]+ +(\w+) @theirs:\S+.* \[\d+/\d+.*\]$", run.output, re.M)
    assert added == ["NodeHealth"]
    # The variable says where jobs write, and makes no run PARTIAL.
    assert "RFM_PREFIX" not in run.output
    (stage,) = tmp_path.glob("stage/*")
    assert [*stage.glob("theirs/batch")]
    assert stage.stat().st_mode & 0o777 == 0o750


def test_a_folder_of_tests_that_selects_nothing_is_red_with_what_is_missing(site, ran):
    config = site(
        [system(partition("batch"))], {"node": {"of": "batch", "features": ["intra-node"]}}
    )
    run = ran(config, "-c", "reframe/storage", "-R", "-r")
    assert run.returncode == 1
    assert "no partition has inter-node or storage" in run.output
    assert f"assay check -C {config}: it says which words are missing" in run.output


def test_so_it_says_in_a_process_of_its_own(site, tmp_path):
    """Its site is loaded before the tests; in a copied process the tests came first."""
    config = site([system(partition("batch"))], {"node": {"of": "batch", "features": ["storage"]}})
    words = ("-C", config, "-c", "reframe/network/imb.py", "-r")
    run = shell.run(REFRAME, *words, cwd=ROOT, PYTHONPATH=ROOT / "src")
    assert run.returncode == 1
    assert "no partition has intra-node or inter-node" in run.stdout


def test_a_configuration_without_words_of_ours_is_red_too(site, tmp_path):
    site([system(partition("batch"))], {})
    environment = {**os.environ, "HOME": str(tmp_path), "RFM_SYSTEM": "theirs"}
    run = forked.reframe(
        *(REFRAME, "-C", tmp_path / "settings.py", "-c", "reframe/node", "-r"),
        cwd=ROOT,
        environment={**environment, "RFM_PREFIX": str(tmp_path)},
    )
    assert run.returncode == 1
    assert "no case is selected; type assay check -C" in run.stdout


#: Shapes of configurations: partitions, and what differs in `assay.yaml`.
SHAPES = {
    "slurm-gpu-as-option": (
        partition("p", "slurm", "srun", access=["-A x", "--gpus-per-node=4"]),
        {"node": {"features": ["intra-node", "posix", "gpu", "cuda"]}},
    ),
    "pbs": (
        partition("p", "pbs", "mpiexec", resources=[{"name": "gpu", "options": ["-l ngpus=2"]}]),
        {"node": {"features": ["intra-node", "posix"], "access": ["-q long"]}},
    ),
    "lsf": (partition("p", "lsf", "lrun"), {"node": {"features": ["intra-node", "posix"]}}),
    "own-launcher": (
        partition("p", "squeue", "own-mpirun", processor={"num_cpus": 8}),
        {
            "node": {"features": ["intra-node", "posix"]},
            "link": {"features": ["inter-node", "tcp"], "extras": {"network_device": "eth0"}},
        },
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_dry_run_under_a_configuration_of_another_shape(shape, site, ran):
    base, places = SHAPES[shape]
    places = {name: {"of": "p", **words} for name, words in places.items()}
    other = system(partition("p"), name="first")
    config = site([other, system(base, partition("login"))], places)
    some = [f"reframe/{name}.py" for name in ("node/health", "network/osu", "compute/hpl")]
    chosen = [word for path in some for word in ("-c", path)]
    run = ran(config, "--system=theirs", *chosen, "--dry-run")
    assert "Traceback" not in run.output
    assert {place for _, _, place in run.cases} == {*places}
    # What the site leaves open is for the tests to say: see test_job_scripts.py.
    tests = {name.split()[0] for name, _, _ in run.cases}
    assert {"NodeHealth", "Osu", "Hpl"} <= tests


def test_a_run_with_the_mpi_of_this_machine_has_its_proof(site, ran, tmp_path):
    """A module would set these variables: they are in the environment of the configuration."""
    live_program("mpirun")
    root = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]
    config = site(
        [system(partition("batch", launcher="mpirun"))],
        {"node": {"of": "batch", "features": ["intra-node", "posix"]}},
        {"gnu": {"features": ["mpi"]}},
        [{"name": "gnu", "env_vars": root}],
    )
    run = ran(config, "-c", "reframe/node/stack.py", "-c", "reframe/node/health.py", "-r")
    assert run.case("NodeHealth").record["verdict"]
    assert run.cases["StackHas %program=mpi", "gnu", "node"].result == "pass"
    script = shell.run(
        "sh", "-c", f"cat {tmp_path}/results/output/*/theirs/node/gnu/StackHas*/rfm_job.sh"
    )
    assert "OMPI_ALLOW_RUN_AS_ROOT=1" in script.stdout


#: As Lmod, with one module.
LMOD = """\
case "$*" in
--version) echo "Modules based on Lua: Version 8.7" >&2;;
python*) echo "import os; its = os.environ" ;;
esac
case "$2 $3" in
"load own") echo "its.update(UCX_RNDV_THRESH='8k', LOADEDMODULES='own')" ;;
"unload own") echo "del its['UCX_RNDV_THRESH'], its['LOADEDMODULES']" ;;
esac"""
MODULE = {"BASH_FUNC_module%%": '() { [ "$*" != "load own" ] || export UCX_RNDV_THRESH=8k; }'}

#: How a person comes to a module of the site -> what the system and the environment name, and what
#: the shell of the person has.
LOADED = {
    "by the job": ({}, {"modules": ["own"]}, {}),
    "by ReFrame for the system": ({"modules": ["own"]}, {}, {}),
    "at login, too": ({}, {"modules": ["own"]}, {"UCX_RNDV_THRESH": "8k", "LOADEDMODULES": "own"}),
}


@pytest.mark.parametrize("how", LOADED)
def test_what_a_module_of_the_site_sets_is_the_sites_however_it_was_loaded(
    how, site, ran, tmp_path
):
    live_program("mpirun")
    of_system, of_stack, given = LOADED[how]
    root = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]
    of_system = {"modules_system": "lmod", "env_vars": [["OMPI_MCA_btl", "^openib"]], **of_system}
    config = site(
        [system(partition("batch", launcher="mpirun", env_vars=root), **of_system)],
        {"node": {"of": "batch", "features": ["intra-node", "posix"]}},
        {"gnu": {"features": ["mpi"]}},
        [{"name": "gnu", **of_stack}],
    )
    lmod = str(shell.program(tmp_path / "lmod", "lmod", LMOD))
    hello = tmp_path / "hello.py"
    hello.write_text(HELLO.format(python=sys.executable))
    record = ran(config, "-c", hello, "-r", LMOD_CMD=lmod, **MODULE, **given).says("Hello").record
    assert record["doubts"] == []
    owned = record["settings"]["machine"]
    assert owned["module:UCX_RNDV_THRESH"] == "8k"
    assert owned["module:OMPI_MCA_btl"] == "^openib"
    # The same by hand.
    run = ran(config, "-c", hello, "-r", LMOD_CMD=lmod, **MODULE, **given, UCX_ZCOPY_THRESH="9k")
    (doubt,) = run.case("Hello").record["doubts"]
    assert doubt.startswith("UCX_ZCOPY_THRESH=9k was set outside of the test")
