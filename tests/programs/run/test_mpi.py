"""Programs under an MPI whose reports the suite does not read: MPICH and its kin.

The stand-in for mpiexec.hydra starts the ranks as it does. The program is a recorded run of HPL.
"""

import sys

import pytest
from bench import HELLO, HPL, Bench
from few_messages import latency

pytestmark = pytest.mark.slow

#: A launcher of MPICH: the first rank prints the output of the world.
HYDRA = """\
#!/bin/sh
[ "$1" != --version ] || { echo "HYDRA build details:"; exit; }
shift 2
export PMI_SIZE=2
"""
BOTH = 'PMI_RANK=0 "$@" & PMI_RANK=1 "$@" >/dev/null 2>&1; wait\n'

#: Name of a stack -> what its launcher does, and what must be said of HPL.
WORLDS = {
    "healthy": (HYDRA + BOTH, ""),
    "one-rank": (HYDRA + 'PMI_RANK=0 "$@"\n', "this launch started 1 ranks, 2 were asked for"),
    "variable-lost": (
        HYDRA + "unset OPENBLAS_NUM_THREADS\n" + BOTH,
        "OPENBLAS_NUM_THREADS did not reach the ranks on",
    ),
    "singletons": (
        '#!/bin/sh\n[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }\n'
        'shift 2; export OMPI_COMM_WORLD_SIZE=2; "$@"; "$@"\n',
        "the launcher of Open MPI started the ranks, which use mpich: each is then a world of its",
    ),
    "no-launcher": (
        HYDRA.replace("export PMI_SIZE=2", "") + '"$@"; "$@"\n',
        "no launcher gave the ranks of mpich a place in a world",
    ),
}


@pytest.fixture
def stacks(bench):
    """Adds a stack whose mpirun is this script; returns how."""
    bench.partition()

    def add(name, script, **extras):
        path = bench.replay(name, "xhpl", HPL.but(stderr=""))
        bench.program(name, "mpirun", script)
        bench.stack(name, ["hpl", "mpi", "netpipe"], path, ucx_version="1.13.1", **extras)

    return add


def hpl(bench):
    return bench.run("-n", "^Hpl$", "--mode", "smoke", path="reframe/compute/hpl.py")


def test_hpl_counts_its_world_and_the_witness_its_ranks(bench, stacks):
    for name, (script, _) in WORLDS.items():
        stacks(name, script, mpi="mpich")
    run = hpl(bench)
    for name, (_, cause) in WORLDS.items():
        outcome = run.case("Hpl", name)
        outcome.says(cause)
        assert outcome.record["proof"]["mpi"] == "mpich"
    record = run.case("Hpl", "healthy").record
    assert record["verdict"] == "PASS"
    assert record["proof"]["ranks"] == {"asked": 2, "seen": 2, "cores": 2}
    assert sum(record["proof"]["hosts"].values()) == 2
    assert record["settings"]["ranks"]["OPENBLAS_NUM_THREADS"] == "1"


def test_the_run_shows_the_mpi_and_contradicts_a_stack_that_states_another(bench, stacks):
    script, _ = WORLDS["healthy"]
    stacks("silent", script)
    stacks("stated", script, openmpi_version="4.1.4")
    run = hpl(bench)
    assert run.case("Hpl", "silent").says("").record["proof"]["mpi"] == "mpich"
    run.case("Hpl", "stated").says("the MPI mpich ran, the stack stated states openmpi")


def test_a_path_that_no_mpi_reports_is_skipped_before_or_after_the_launch(bench, stacks):
    script, _ = WORLDS["healthy"]
    stacks("silent", script)
    stacks("stated", script, mpi="cray-mpich")
    run = bench.run("-n", "NetPipe.*=posix", path="reframe/network/netpipe.py")
    assert {run.case("NetPipe", name).result for name in ("silent", "stated")} == {"skip"}
    said = "{}: the MPI {} reports no path that the suite can read"
    assert said.format("not-here", "cray-mpich") in run.output
    # Nobody stated it: a module may have changed since the site was accepted.
    assert said.format("incomplete", "mpich") in run.output
    assert run.returncode == 1
    assert "no case ran, 2 were skipped" in run.output


def test_on_the_machine_of_a_person_a_path_without_proof_makes_the_run_partial(bench):
    bench.partition(extras={"network_device": "lo", "others": "processes"})
    bench.stack("found", ["mpi", "netpipe"], mpi="mpich")
    run = bench.run("-n", "NetPipe.*=posix", path="reframe/network/netpipe.py")
    assert "incomplete: the MPI mpich reports no path that the suite can read" in run.output


def test_a_program_that_does_not_say_its_number_of_ranks_proves_no_world(bench, stacks):
    stacks("other", WORLDS["healthy"][0], mpi="mpich")
    path = bench.check("hello", HELLO.format(python=sys.executable))
    said = "nothing shows one world of 2 ranks: the suite reads no report of mpich, and"
    bench.run("-n", "Hello", path=path).says("Hello", said)


#: What modules and their like export before a launch.
SET = {"OMPI_MCA_btl": "^openib", "UCX_RNDV_THRESH": "8k", "OPAL_PREFIX": "/usr"}


def test_what_the_configuration_of_the_site_sets_is_stated(bench):
    """The same from the shell of a person is a fault, or makes the run PARTIAL."""
    bench.ready()
    bench.environments[0]["prepare_cmds"] = [f"export {n}='{v}'" for n, v in SET.items()]
    path = bench.check("hello", HELLO.format(python=sys.executable))
    record = bench.run("-n", "Hello", path=path).says("Hello").record
    owned = record["settings"]["machine"]
    assert {f"module:{name}": value for name, value in SET.items()}.items() <= owned.items()
    assert (record["doubts"], record["problems"]) == ([], [])
    run = bench.run("-n", "Hello", path=path, **SET)
    run.says("Hello", "OMPI_MCA_btl=^openib was set outside of the test and chooses")
    doubts = run.case("Hello").record["doubts"]
    assert {doubt.partition("=")[0] for doubt in doubts} == {"OPAL_PREFIX", "UCX_RNDV_THRESH"}


#: How a stack came to be -> whether another version of UCX than it states is a fault.
STACKS = {
    "module": ({"prepare_cmds": ["true"]}, {}, False),
    "lock": ({"prepare_cmds": ["true"]}, {"provenance": "Spack, spack.lock sha256 0"}, True),
    "machine": ({}, {}, True),
}


@pytest.mark.parametrize("of", STACKS)
def test_a_version_of_a_module_is_read_from_the_run(bench, of, monkeypatch):
    more, extras, fault = STACKS[of]

    def stack(name, features, path=None, **said):
        Bench.stack(bench, name, features, path, **{**said, "ucx_version": "1.13.99", **extras})
        bench.environments[-1].update(more)

    monkeypatch.setattr(bench, "stack", stack)
    record = latency(bench).case("OsuPy").record
    said = [line for line in record["problems"] if "the stack states 1.13.99" in line]
    assert bool(said) is fault
    stated = [line for line in record["notes"] if "the stack states 1.13.99" in line]
    assert bool(stated) is not fault


def test_a_library_of_mpi_io_that_only_open_mpi_has_is_skipped(bench, tmp_path):
    bench.storage(tmp_path)
    built = {"classes": ["S"], "subtypes": ["full"]}
    bench.stack("other", ["btio"], mpi="mpich", btio_built=built)
    run = bench.run("-n", "BtIo.*full.*ompio", path="reframe/storage/btio.py")
    assert {outcome.result for outcome in run.cases.values()} == {"skip"}
    assert "not-here: the MPI mpich has no ompio" in run.output
