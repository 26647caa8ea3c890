"""Programs of a stack, transports of a partition, health of a node, and the tests of the suite."""

import re
import shutil
from pathlib import Path

import pytest
from bench import ROOT, live_program, run_reframe

pytestmark = pytest.mark.slow


def test_the_programs_of_a_stack(bench):
    """A program is a script, is not there, or is a real one linked to a library of another name."""
    binary = Path(live_program("cat")).read_bytes()
    assert b"libc.so.6" in binary
    torn = bench.program("torn", "hpcc", "")
    (torn / "hpcc").write_bytes(binary.replace(b"libc.so.6", b"liba.so.6"))
    bench.partition()
    bench.stack("bare", ["mpi"])
    bench.stack("wrapped", ["hpcc"], bench.program("wrapped", "hpcc", "#!/bin/sh\nexit 0\n"))
    bench.stack("wrong", ["hpl-gpu"], hpl_gpu_command="no-such-hpl", hpl_gpu_block=192)
    bench.stack("torn", ["hpcc"], torn)
    run = bench.run("-n", "StackHas%program=(btio|hpcc|hpl-gpu)$", path="reframe/node/stack.py")
    assert run.case("StackHas %program=btio", "bare").result == "skip"
    assert run.output.count("this stack has no ") == 4  # one line for each stack
    run.says("StackHas %program=hpcc", environ="wrapped")
    said = "no-such-hpl is not on PATH, though the stack names it"
    run.says("StackHas %program=hpl-gpu", said, environ="wrong")
    said = "hpcc: linked to liba.so.6, which is not found"
    run.says("StackHas %program=hpcc", said, environ="torn")


@pytest.mark.parametrize("there", [True, False])
def test_the_hpl_of_a_container_is_looked_for_inside_of_it(bench, there):
    inside = bench.program("inside", "hpl.sh" if there else "other.sh", "#!/bin/sh\n")
    script = f'#!/bin/sh\nshift 2\nPATH={inside}:$PATH exec "$@"\n'
    path = bench.program("outside", "apptainer", script)
    words = {"image": "/opt/hpl.sif", "hpl_gpu_command": "apptainer exec /opt/hpl.sif hpl.sh"}
    bench.partition()
    bench.stack("hpl", ["hpl-gpu"], path, **words)
    run = bench.run("-n", "StackHas%program=hpl-gpu$", path="reframe/node/stack.py")
    said = "" if there else "hpl.sh is not on PATH, though the stack names it; the extra hpl_gpu_c"
    run.says("StackHas %program=hpl-gpu", said, environ="hpl")


def test_a_transport_that_is_not_there_is_said(bench):
    bench.partition(features=["intra-node", "posix"])
    listing = "# Memory domain: tcp\n#      Transport: tcp\n#         Device: lo\n"
    path = bench.program("narrow", "ucx_info", f"#!/bin/sh\nprintf '{listing}'\n")
    bench.stack("narrow", ["ucx"], path)
    bench.stack("bare", ["mpi"])
    run = bench.run("-n", "TransportOpens", path="reframe/node/transport.py")
    assert run.case("TransportOpens %transport=tcp", "narrow").result == "skip"
    assert run.output.count("bench:here has no transport ") == 2  # one line for each stack
    assert "this stack has no ucx: nothing shows whether it opens posix" in run.output
    said = "UCX cannot open posix here, which the partition says it has"
    run.says("TransportOpens %transport=posix", said, environ="narrow")


def test_the_pre_check_of_a_node_has_the_limits_of_all_its_partitions(bench, tmp_path):
    limits = {
        "load_per_cpu_max": 1000,
        "memory_available_min": 1.1,
        "free_bytes_min": 10**18,
        "mount_options": ["gold-plated"],
    }
    (tmp_path / "there").mkdir()
    bench.storage(tmp_path / "there", name="limited", extras={"health": limits})
    bench.partition("busy", extras={"health": {"memory_available_min": 1.2}})
    bench.storage(tmp_path / "gone", name="gone")
    bench.partition("governed", extras={"health": {"governors": ["of-no-machine"]}})
    bench.stack("any", ["mpi"], provenance="made for this test")
    run = bench.run("-n", "NodeHealth", path="reframe/node/health.py")
    outcome = run.case("NodeHealth", partition="limited")
    provenance = outcome.record["provenance"]
    outcome.says(
        "of the memory is free, not 110%",
        "at least 1000 PB are needed",
        "is mounted without gold-plated",
        "of the memory is free, not 120%",
        "clock governor ",
    )
    said = " ".join(outcome.record["problems"])
    assert re.search(rf"{tmp_path}/gone \(\w+\): No such file or directory", said)
    assert "at most 1000" not in said
    assert said.count("gold-plated") == 1, "the limits of a partition are of its directory"
    assert provenance["suite"]["reframe"].startswith("4.10")
    assert len(provenance["suite"]["requirements_sha256"]) == 64
    assert provenance["stack"]["provenance"] == "made for this test"
    assert provenance["memory"]["MemTotal"] > 0

    for partition in ("busy", "gone", "governed"):
        assert run.case("NodeHealth", partition=partition).result == "skip"
        why = "no-case: limited has the same nodes, and its case has the limits of "
        assert f"{why}{partition}, too" in run.output


def test_the_pre_check_runs_where_the_site_asks_for_it_and_on_other_nodes(bench):
    """Not where the smoke profile leaves it out; once more for another stack or other nodes."""
    without = {"options": {"StrictCheck.smoke": ["Census"]}}
    slowly = {"job_submit_timeout": 30}  # ReFrame tells it of the partition of a case only
    bench.partition("first", extras=without)
    bench.partition("second", sched_options=slowly)
    bench.partition("third", sched_options=slowly)
    bench.partition("elsewhere", access=["--of-no-scheduler"])
    bench.stack("any", ["mpi"])
    bench.record_all()
    run = bench.run("-n", "NodeHealth", "-S", "profile=smoke", path="reframe/node/health.py")
    results = {partition: outcome.result for (_, _, partition), outcome in run.cases.items()}
    assert results == {"first": "skip", "second": "pass", "third": "skip", "elsewhere": "pass"}
    assert "not-asked: the smoke profile of bench:first is Census" in run.output
    assert "no-case: second has the same nodes" in run.output


def test_the_pre_check_runs_where_gpus_are_and_with_each_stack(bench):
    bench.partition("plain", environs=["any"])
    gpus = [{"type": "gpu", "num_devices": 1}]
    words = ["intra-node", "gpu", "cuda"]
    bench.partition("gpus", environs=["any"], features=words, devices=gpus)
    bench.partition("built", environs=["other"])
    bench.stack("any", ["mpi"], bench.program("any", "nvidia-smi", "#!/bin/sh\nexit 1\n"))
    bench.stack("other", ["mpi"])
    bench.record_all()
    run = bench.run("-n", "NodeHealth", path="reframe/node/health.py")
    assert run.case("NodeHealth", partition="plain").result == "skip"
    assert "no-case: gpus has the same nodes" in run.output
    run.says("NodeHealth", "the state of the GPUs is not known", partition="gpus")
    run.says("NodeHealth", partition="built")


def test_the_suite_loads(bench):
    bench.ready()
    outcome = bench.run("-n", "SuiteLoads", path="reframe").says("SuiteLoads")
    assert {row["file"] for row in outcome.record["parsed"]["rows"]} == {
        str(path.relative_to(ROOT / "reframe")) for path in (ROOT / "reframe").rglob("*.py")
    }


UNFIT = """\
import reframe as rfm
from reframe.core.builtins import parameter, run_after

from assay.run.strict import StrictCheck


@rfm.simple_test
class Lenient(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"


@rfm.simple_test
class Torn(StrictCheck):
    @run_after("init")
    def declare(self):
        raise ValueError("no such size")


@rfm.simple_test
class Odd(StrictCheck):
    declares = {"rate": "MBps"}
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"


@rfm.simple_test
class Shadow(StrictCheck):
    partition = parameter([1])
"""


def test_a_file_whose_tests_are_not_strict_or_cannot_be_made_is_red(bench):
    """ReFrame would accept a test that is not strict, and drop the others with a warning."""
    suite = bench.folder / "reframe"
    shutil.copytree(ROOT / "reframe" / "node", suite / "node")
    (suite / "node" / "torn.py").write_text("import nothing_of_that_name\n")
    (suite / "node" / "empty.py").write_text("x = 1\n")
    (suite / "node" / "unfit.py").write_text(UNFIT)
    bench.ready()
    outcome = bench.run("-n", "SuiteLoads", path=str(suite)).case("SuiteLoads")
    assert outcome.result == "fail"
    for cause in (
        "node/torn.py does not import",
        "nothing_of_that_name",
        "node/empty.py has no test",
        "node/unfit.py: Lenient does not derive from StrictCheck",
        "Shadow has a parameter 'partition', by which references are looked up",
        "node/unfit.py: Torn cannot be made: ValueError: no such size",
        "Odd declares: 'rate': unknown unit 'MBps': write Unit(",
    ):
        assert cause in "; ".join(outcome.record["problems"])


def test_a_reference_that_no_test_can_look_up_is_red(bench):
    bench.ready("bare")
    metric = {"value": 1, "unit": "MB/s", "lower": -0.5, "upper": None}
    latency = {"value": 1, "unit": "us", "lower": -0.5, "upper": 1}
    bench.expect("Osu", {"bandwidth_1MiB": metric}, benchmark="bw")
    bench.expect("Osu", {"bandwith_1MiB": metric}, benchmark="bw")
    bench.expect("Osu", {"bandwidth_1MiB": metric}, benchmark="latency")
    bench.expect("Osu", {"bandwidth_8B": metric}, partition="there")
    bench.expect("Osu", {"latency_8B": latency}, partition=["here", "there"], environ="bear")
    outcome = bench.run("-n", "SuiteLoads", path="reframe/node").case("SuiteLoads")
    reason = "; ".join(outcome.record["problems"])
    assert "references/1: no test has 'bandwith_1MiB' of {benchmark: bw, partition: *," in reason
    assert "references/2: no test has 'bandwidth_1MiB'" in reason
    assert "references/3: no test has 'bandwidth_8B' of {partition: there" in reason
    assert "references/4/for/partition: the site has no partition 'there'; it has here" in reason
    assert "references/4/for/environ: the site has no environ 'bear'; it has bare" in reason
    assert "references/0" not in reason


def test_a_test_that_nothing_is_said_of_is_red_before_it_runs(bench):
    bench.strict = True
    bench.partition()
    bench.stack("bare", ["mpi"])
    arguments = ("-c", "reframe/node", "-R", "-n", "SuiteLoads", "--dry-run")
    run = run_reframe(bench.write(), bench.results, *arguments)
    assert run.returncode != 0
    assert "no reference for 'load_per_cpu' [1] of {partition: here, environ: bare," in run.output


# The sites that select every test between GPUs take 20 seconds.
@pytest.mark.parametrize(
    "site",
    [*(pytest.param(name, marks=pytest.mark.long) for name in ("ibisco", "h100")), "debian12"],
)
def test_references_of_a_site_are_for_tests_that_it_runs(site, tmp_path):
    run = run_reframe(
        ROOT / f"site-config/{site}/reframe.py",
        tmp_path,
        *("-c", "reframe/node/suite.py", "-n", "SuiteLoads", "--dry-run", f"--system={site}"),
    )
    assert run.returncode == 0, run.output


@pytest.mark.long
def test_a_probe_that_hangs_is_named_and_other_results_are_kept(bench):
    bench.partition()
    bench.stack("stuck", ["mpi"], bench.program("stuck", "ucx_info", "#!/bin/sh\nsleep 1000\n"))
    run = bench.run("-n", "NodeHealth|StackHas.*=mpi$", path="reframe/node")
    outcome = run.says("NodeHealth", "ucx_info -d did not end within 20 s")
    assert outcome.record["provenance"]["memory"]["MemTotal"] > 0, "what else it found is kept"
    run.says("StackHas %program=mpi")
