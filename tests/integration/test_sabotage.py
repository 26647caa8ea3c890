"""Each sabotage turns a real run red, with a message that names the cause.

Live where the machine has the programs (real MPI, real benchmark, something done to it); otherwise
a recorded real run is replayed through a visible change.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench import DATA, ROOT, Recorded

pytestmark = pytest.mark.slow

UCX = {"ucx_version": "1.13.1"}
PORTS = ROOT / ".cache" / "osu-py"


def live_ucx():
    """Version of the UCX on this machine; skips where there is none to run."""
    from assay import detect

    version = detect.ucx_version()
    if not (shutil.which("mpirun") and version):
        pytest.skip("needs mpirun and UCX on this machine")
    if not (PORTS / "osu_latency.py").exists():
        pytest.skip("needs the Python ports of the OSU tests: make setup")
    return version


def osu_py(*before: str) -> str:
    command = [*before, sys.executable, str(PORTS)]
    return " ".join(map(shlex.quote, command)) + "/osu_{benchmark}.py"


def live(bench, version, stack="live", *, before=(), path=None):
    bench.stack(
        stack, ["osu-py"], path, ucx_version=version, osu_py_command=osu_py(*map(str, before))
    )


def test_a_healthy_run_passes_with_its_proof(bench):
    version = live_ucx()
    bench.partition()
    live(bench, version)
    bench.record_all()
    run = bench.run("-n", "OsuPy.*posix.*=latency$", path="reframe/network")
    outcome = run.case("OsuPy")
    assert (run.returncode, outcome.result) == (0, "pass"), run.output
    proof = outcome.record["proof"]
    assert proof["pml"] == ["ucx"]
    assert proof["ranks"] == {"asked": 2, "seen": 2, "cores": 2}
    assert proof["ucx"] == version
    assert set(proof["lanes"]) == {"posix/memory"}
    assert outcome.record["verdict"] == "RECORDED"


def test_a_benchmark_killed_half_way(bench):
    """The real program is sent SIGKILL by its own rank 0 once ten lines are out."""
    version = live_ucx()
    killer = bench.folder / "kill_after_ten_lines.py"
    killer.write_text(
        "import os, signal, subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "for n, line in enumerate(child.stdout):\n"
        "    sys.stdout.buffer.write(line); sys.stdout.buffer.flush()\n"
        "    if n == 10:\n"
        "        child.kill(); child.wait(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.exit(child.wait())\n"
    )
    bench.partition()
    live(bench, version, before=(sys.executable, "-u", killer))
    bench.record_all()
    run = bench.run("-n", "OsuPy.*posix.*=latency$", path="reframe/network", PYTHONUNBUFFERED="1")
    outcome = run.case("OsuPy")
    assert run.returncode != 0
    assert outcome.result == "fail"
    assert "ended with exit code 137 (signal 9)" in outcome.reason
    assert "incomplete" in outcome.reason
    assert outcome.record["parsed"]["complete"] is False


def test_tcp_behind_the_back_of_the_test(bench):
    version = live_ucx()
    bench.partition()
    live(bench, version, before=("env", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"))
    bench.record_all()
    run = bench.run("-n", "OsuPy.*posix.*=latency$", path="reframe/network")
    outcome = run.case("OsuPy")
    assert run.returncode != 0
    assert outcome.result == "fail"
    assert "tcp/lo carried messages" in outcome.reason
    assert "UCX_TLS was tcp,self where the program ran, posix,self was asked for" in outcome.reason


def test_another_pml_behind_the_back_of_the_test(bench):
    version = live_ucx()
    bench.partition()
    live(bench, version, before=("env", "OMPI_MCA_pml=ob1"))
    bench.record_all()
    outcome = bench.run("-n", "OsuPy.*posix.*=latency$", path="reframe/network").case("OsuPy")
    assert outcome.result == "fail"
    assert "Open MPI chose the pml ob1; ucx was asked for" in outcome.reason
    assert "UCX said nothing" in outcome.reason


LATE = """\
#!/bin/sh
real={real}
case "$*" in
127.0.0.1*|-h) exec $real "$@" ;;
esac
UCX_LOG_FILE=late.%p $real "$@"; rc=$?
sleep 0.5
mv late.* ucx.late.$$.log
exit $rc
"""


def test_a_server_whose_log_comes_late_is_waited_for(bench):
    version = live_ucx()
    real = shutil.which("ucx_perftest")
    if not real:
        pytest.skip("needs ucx_perftest on this machine")
    bench.partition()
    path = bench.program("late", "ucx_perftest", LATE.format(real=shlex.quote(real)))
    bench.stack("late", ["ucx", "ucx-perftest"], path, ucx_version=version)
    bench.record_all()
    outcome = bench.run("-n", "UcxPerftest.*posix.*tag_lat", path="reframe/network").case("Ucx")
    assert outcome.result == "pass", outcome.reason


HELLO = """\
import reframe as rfm

from assay.checks.mpi import MpiCheck
from assay.outputs import Parsed


@rfm.simple_test
class Hello(MpiCheck):
    kind = "network"
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["*"]
    executable = {python!r}
    executable_opts = ["-c", "'from mpi4py import MPI; MPI.COMM_WORLD.Barrier()'"]

    def read(self):
        return Parsed("hello", "hello", None, True, (), {{}})
"""


@pytest.mark.parametrize("foreign", [False, True], ids=["one world", "two singletons"])
def test_n_singletons_are_not_a_world_though_they_exit_with_0(bench, foreign):
    """A launcher of another MPI starts the program twice, and each thinks that it is alone."""
    live_ucx()
    checks = bench.folder / "checks"
    checks.mkdir()
    (checks / "hello.py").write_text(HELLO.format(python=sys.executable))
    bench.partition()
    path = None
    if foreign:
        path = bench.program(
            "foreign",
            "mpirun",
            '#!/bin/sh\n[ "$1" = -np ] && shift 2\n"$@" & "$@"; first=$?; wait $! && exit $first\n',
        )
    bench.stack("mpi", ["mpi"], path)
    outcome = bench.run("-n", "Hello", path=str(checks)).case("Hello")
    if not foreign:
        assert outcome.result == "pass", outcome.reason
        return
    assert outcome.result == "fail"
    assert "2 worlds came up instead of one of 2 ranks" in outcome.reason


def test_a_full_scratch_file_system(bench, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    if not shutil.which("iozone"):
        pytest.skip("needs iozone on this machine")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode().strip()}")
    try:
        bench.partition(
            features=["storage"], extras={"directory": str(small), "memory_bytes": 2**33}
        )
        bench.stack("system", ["iozone"])
        bench.record_all()
        run = bench.run("-n", "Iozone.*cached", "--mode", "smoke", path="reframe/storage")
    finally:
        subprocess.run(["umount", str(small)], check=True)
    outcome = run.case("Iozone")
    assert run.returncode != 0
    assert outcome.result == "fail"
    assert "No space left on device" in outcome.reason


OWN_FUNCTION = """\
import reframe as rfm
from reframe.core.builtins import performance_function

from assay.checks.strict import StrictCheck
from assay.outputs import Parsed


@rfm.simple_test
class Own(StrictCheck):
    kind = "compute"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"

    def read(self):
        return Parsed("own", "own", None, True, (), {})

    @performance_function("MB/s")
    def rate(self):
        raise ValueError("ReFrame would warn and pass")
"""


def test_a_metric_from_a_function_of_its_own(bench):
    checks = bench.folder / "checks"
    checks.mkdir()
    (checks / "own.py").write_text(OWN_FUNCTION)
    bench.partition()
    bench.stack("any", ["mpi"])
    outcome = bench.run("-n", "Own", path=str(checks)).case("Own")
    assert outcome.result == "fail"
    assert "metric 'rate' does not come from measure()" in outcome.reason


METRIC = """\
import reframe as rfm

from assay.checks.strict import StrictCheck
from assay.outputs import Parsed, Quantity


@rfm.simple_test
class Careless(StrictCheck):
    kind = "compute"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
    declares = {{"rate": "MB/s", "time": "s"}}

    def read(self):
        return Parsed("careless", "careless", None, True, ({{"rate": 1.0}},), {{"rate": "MB/s"}})

    def measure(self, parsed):
        return {measured}
"""


@pytest.mark.parametrize(
    ("measured", "cause"),
    [
        ("{'rate': 1.0}", "metric 'time' was not extracted"),
        ("{'rate': 1.0, 'time': float('nan')}", "metric 'time' is not finite: nan"),
        ("{'rate': 1.0, 'time': [1.0, float('inf')]}", "metric 'time' is not finite"),
        ("{'rate': 1.0, 'time': []}", "metric 'time' is not finite"),
        ("{'rate': 1.0, 'time': None}", "metric 'time' is not finite: None"),
        ("{'rate': 1.0, 'time': parsed.at('time')}", "metrics cannot be read"),
        ("{'rate': 1.0, 'time': 1.0, 'more': 1.0}", "metric 'more' is not declared"),
        ("{'rate': 1.0, 'time': Quantity(1.0, 'ms')}", "metric 'time' is in 'ms', not in 's'"),
    ],
)
def test_a_metric_that_is_missing_or_no_number(bench, measured, cause):
    checks = bench.folder / "checks"
    checks.mkdir()
    (checks / "careless.py").write_text(METRIC.format(measured=measured))
    bench.partition()
    bench.stack("any", ["mpi"])
    bench.record_all()
    run = bench.run("-n", "Careless", path=str(checks))
    outcome = run.case("Careless")
    assert run.returncode != 0
    assert outcome.result == "fail"
    assert cause in outcome.reason
    assert outcome.record["verdict"] == "FAIL"


def replayed(bench, program, features, recorded, **extras):
    bench.partition(launcher="local")
    path = bench.replay("replayed", program, recorded)
    bench.stack("replayed", features, path, **extras)


def test_a_reference_that_exists_only_for_another_system(bench):
    replayed(bench, "xhpl", ["hpl"], Recorded.load("hpl"))
    metrics = {"performance": {"value": 10, "unit": "GFLOP/s", "lower": -0.9, "upper": None}}
    bench.references["references"].append(
        {"for": {"partition": "gpu", "test": "Hpl"}, "metrics": metrics, "source": "elsewhere"}
    )
    run = bench.run("-n", "Hpl", "--mode", "smoke", path="reframe/compute")
    assert run.returncode != 0
    assert "no reference for 'performance' [GFLOP/s] of {partition: here" in run.case("Hpl").reason


def test_a_reference_that_is_missed(bench):
    """ReFrame's own judgement and ours agree, and the record has the bounds."""
    replayed(bench, "xhpl", ["hpl"], Recorded.load("hpl"))
    metric = {"value": 10000, "unit": "GFLOP/s", "lower": -0.1, "upper": 0.1}
    bench.expect("Hpl", {"performance": metric})
    outcome = bench.run("-n", "Hpl", "--mode", "smoke", path="reframe/compute").case("Hpl")
    assert outcome.result == "fail"
    assert "performance" in outcome.reason
    judged = outcome.record["metrics"]["performance"]
    assert (judged["verdict"], judged["lower"], judged["upper"]) == ("FAIL", 9000, 11000)


HPL = Recorded.load("hpl")


def hpl_with(old, new):
    assert old in HPL.stdout
    return HPL.but(stdout=HPL.stdout.replace(old, new))


@pytest.mark.parametrize(
    ("recorded", "cause"),
    [
        (HPL, ""),
        (hpl_with("PASSED", "FAILED"), "FAILED"),
        (
            hpl_with(
                "              0 tests completed and failed",
                "             10 tests completed and failed",
            ),
            "10 tests completed and failed",
        ),
        (hpl_with("HPLinpack 2.3", "HPLinpack 9.9"), "HPLinpack 9.9"),
        (HPL.but(rc=1), "xhpl ended with exit code 1"),
        (HPL.but(stdout=HPL.stdout[: len(HPL.stdout) // 2]), "incomplete"),
    ],
    ids=["healthy", "residual failed", "10 failed", "unknown version", "exit code", "half"],
)
def test_hpl(bench, recorded, cause):
    replayed(bench, "xhpl", ["hpl"], recorded)
    bench.record_all()
    run = bench.run("-n", "Hpl", "--mode", "smoke", path="reframe/compute")
    outcome = run.case("Hpl")
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert (run.returncode == 0) is not bool(cause)
    assert cause in outcome.reason


@pytest.mark.parametrize(
    ("name", "cause"), [("btio-full", ""), ("btio-full-enospc", "Verification = UNSUCCESSFUL")]
)
def test_btio_that_failed_its_verification_with_exit_code_0(bench, tmp_path, name, cause):
    bench.partition(
        launcher="local",
        features=["storage"],
        extras={"directory": str(tmp_path), "memory_bytes": 2**33},
    )
    path = bench.replay("replayed", "bt.S.x.mpi_io_full", Recorded.load(name))
    bench.stack("replayed", ["btio"], path, btio_classes=["S"], btio_subtypes=["full"])
    bench.record_all()
    run = bench.run("-n", "BtIo.*full", path="reframe/storage")
    outcome = run.case("BtIo")
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert cause in outcome.reason


def test_btio_runs_nowhere_else_where_its_directory_cannot_be_made(bench, tmp_path):
    """In the stage directory the program would run as well, and measure another file system."""
    (tmp_path / "file").write_text("")
    bench.partition(
        launcher="local",
        features=["storage"],
        extras={"directory": str(tmp_path / "file"), "memory_bytes": 2**33},
    )
    path = bench.replay("replayed", "bt.S.x.mpi_io_full", Recorded.load("btio-full"))
    bench.stack("replayed", ["btio"], path, btio_classes=["S"], btio_subtypes=["full"])
    bench.record_all()
    outcome = bench.run("-n", "BtIo.*full", path="reframe/storage").case("BtIo")
    assert outcome.result == "fail"
    assert "the job script did not reach its end" in outcome.reason
    assert "Not a directory" in outcome.reason


@pytest.mark.parametrize(
    ("version", "stated", "cause"),
    [("5.7", {}, ""), ("7.2", {}, "not at all"), ("7.2", {"osu_version": "5.7"}, "5.7")],
    ids=["cannot validate", "not stated", "an old one stated"],
)
def test_an_osu_that_was_not_asked_to_validate(bench, version, stated, cause):
    recorded = Recorded.load("osu-latency-posix")
    recorded = recorded.but(stdout=recorded.stdout.replace("v5.7", f"v{version}"))
    replayed(bench, "osu_latency", ["osu"], recorded, **UCX, **stated)
    bench.record_all()
    run = bench.run("-n", "Osu%transport=posix.*=latency$", path="reframe/network")
    outcome = run.case("Osu")
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert not cause or (
        "OSU 7.2 was not asked to validate what it received: the stack states "
        f"osu_version {cause}" in outcome.reason
    )


def test_one_core_is_too_few_for_all_that_needs_two(bench):
    one = {
        "num_cpus": 1,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": 1,
        "num_sockets": 1,
    }
    bench.partition(processor=one)
    bench.stack("all", ["osu", "netpipe", "hpcc"], **UCX)
    run = bench.run("-n", "Osu|NetPipe|Hpcc")
    assert run.cases
    assert {outcome.result for outcome in run.cases.values()} == {"skip"}
    assert "2 ranks are needed; bench:here has cores for 1" in run.output


def test_what_a_stack_has_not_is_said(bench):
    bench.partition()
    bench.stack("bare", ["mpi"])
    run = bench.run("-n", "StackHas", path="reframe/node")
    assert run.case("StackHas %program=btio").result == "skip"
    assert "this stack has no btio" in run.output


def test_a_transport_that_is_not_there_is_said(bench):
    bench.partition(features=["intra-node", "posix"])
    listing = "# Memory domain: tcp\n#      Transport: tcp\n#         Device: lo\n"
    path = bench.program("narrow", "ucx_info", f"#!/bin/sh\nprintf '{listing}'\n")
    bench.stack("narrow", ["ucx"], path)
    bench.stack("bare", ["mpi"])
    run = bench.run("-n", "TransportOpens", path="reframe/node")
    assert run.case("TransportOpens %transport=tcp", "narrow").result == "skip"
    assert "bench:here has no transport tcp: nothing is run over it" in run.output
    assert "this stack has no ucx: nothing shows whether it opens posix" in run.output
    outcome = run.case("TransportOpens %transport=posix", "narrow")
    assert outcome.result == "fail"
    assert "UCX cannot open posix here, which the partition says it has" in outcome.reason


def test_a_test_file_that_does_not_import_is_red(bench):
    suite = bench.folder / "reframe"
    shutil.copytree(ROOT / "reframe", suite)
    (suite / "network" / "torn.py").write_text("import nothing_of_that_name\n")
    (suite / "network" / "empty.py").write_text("x = 1\n")
    bench.partition()
    bench.stack("bare", ["mpi"])
    run = bench.run("-n", "SuiteLoads", path=str(suite))
    assert run.returncode != 0
    reason = run.case("SuiteLoads").reason
    assert "network/torn.py does not import" in reason
    assert "nothing_of_that_name" in reason
    assert "network/empty.py has no test" in reason


UNFIT = """\
import reframe as rfm
from reframe.core.builtins import parameter, run_after

from assay.checks.strict import StrictCheck


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
class Shadow(StrictCheck):
    partition = parameter([1])
"""


def test_a_test_that_is_not_strict_or_cannot_be_made_is_red(bench):
    """ReFrame would believe the one and drop the other with a warning."""
    suite = bench.folder / "reframe"
    shutil.copytree(ROOT / "reframe" / "node", suite / "node")
    (suite / "node" / "unfit.py").write_text(UNFIT)
    bench.partition()
    bench.stack("bare", ["mpi"])
    run = bench.run("-n", "SuiteLoads", path=str(suite))
    reason = run.case("SuiteLoads").reason
    assert run.returncode != 0
    assert "node/unfit.py: Lenient is no StrictCheck" in reason
    assert "Shadow has a parameter 'partition', by which references are looked up" in reason
    assert "node/unfit.py: Torn cannot be made: ValueError: no such size" in reason


def test_a_reference_that_no_test_can_look_up_is_red(bench):
    bench.partition()
    bench.stack("bare", ["mpi"])
    metric = {"value": 1, "unit": "MB/s", "lower": -0.5, "upper": None}
    bench.expect("Osu", {"bandwidth_1MiB": metric}, benchmark="bw")
    bench.expect("Osu", {"bandwith_1MiB": metric}, benchmark="bw")
    bench.expect("Osu", {"bandwidth_1MiB": metric}, benchmark="latency")
    bench.expect("Osu", {"bandwidth_8B": metric}, partition="there")
    reason = bench.run("-n", "SuiteLoads", path="reframe/node").case("SuiteLoads").reason
    assert "references/1: no test has 'bandwith_1MiB' of {benchmark: bw, partition: *," in reason
    assert "references/2: no test has 'bandwidth_1MiB'" in reason
    assert "references/3: no test has 'bandwidth_8B' of {partition: there" in reason
    assert "references/0" not in reason


def test_a_program_that_is_a_script_is_there(bench):
    bench.partition()
    bench.stack("wrapped", ["hpcc"], bench.program("wrapped", "hpcc", "#!/bin/sh\nexit 0\n"))
    outcome = bench.run("-n", "StackHas.*=hpcc$", path="reframe/node").case("StackHas")
    assert outcome.result == "pass", outcome.reason


def test_a_program_that_is_named_and_not_there(bench):
    bench.partition()
    bench.stack("wrong", ["hpl"])
    if shutil.which("xhpl"):
        pytest.skip("this machine has xhpl")
    outcome = bench.run("-n", "StackHas.*=hpl$", path="reframe/node").case("StackHas")
    assert outcome.result == "fail"
    assert "xhpl is not on PATH, though the stack names it" in outcome.reason


def test_a_clock_governor_that_is_another_or_cannot_be_read(bench):
    bench.partition(extras={"health": {"governors": ["of-no-machine"]}})
    bench.stack("bare", ["mpi"])
    bench.record_all()
    outcome = bench.run("-n", "NodeHealth", path="reframe/node").case("NodeHealth")
    assert outcome.result == "fail"
    assert "clock governor " in outcome.reason


def test_the_suite_loads(bench):
    bench.partition()
    bench.stack("bare", ["mpi"])
    run = bench.run("-n", "SuiteLoads", path="reframe")
    outcome = run.case("SuiteLoads")
    assert outcome.result == "pass", outcome.reason
    assert {row["file"] for row in outcome.record["parsed"]["rows"]} == {
        str(path.relative_to(ROOT / "reframe")) for path in (ROOT / "reframe").rglob("*.py")
    }


def test_data_is_recorded_from_one_world_of_two(bench):
    """The recordings are what this file takes them for."""
    from assay.outputs import openmpi

    for name in ("hpl",):
        world = openmpi.parse((DATA / "replay" / name / "stderr").read_text())
        assert (world.ranks_seen, world.worlds) == (2, 1)
        assert Path(DATA / "replay" / name / "stdout").stat().st_size > 1000


NAP = """\
import reframe as rfm
from reframe.core.builtins import parameter

from assay.checks.strict import StrictCheck
from assay.outputs import Parsed


@rfm.simple_test
class Nap(StrictCheck):
    number = parameter([1, 2])
    kind = "compute"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sleep"
    executable_opts = ["0.3"]

    def read(self):
        return Parsed("nap", "nap", None, True, (), {})
"""


def test_cases_of_all_partitions_of_one_machine_run_one_after_the_other(bench):
    """Two measurements at once would measure each other."""
    checks = bench.folder / "checks"
    checks.mkdir()
    (checks / "nap.py").write_text(NAP)
    bench.partition("one")
    bench.partition("two")
    bench.stack("any", ["mpi"])
    run = bench.run(path=str(checks))
    times = sorted(
        (outcome.record["seconds"]["began"], outcome.record["seconds"]["benchmark"])
        for outcome in run.cases.values()
    )
    assert len(times) == 4
    for (began, took), (following, _) in zip(times, times[1:]):
        assert took >= 0.3
        assert following >= began + took


def test_the_pre_check_fails_on_the_limits_of_the_site_and_keeps_the_provenance(bench, tmp_path):
    limits = {
        "load_per_cpu_max": 1000,
        "memory_available_min": 1.1,
        "free_bytes_min": 10**18,
        "mount_options": ["gold-plated"],
        "colour": "green",
    }
    bench.partition(
        features=["storage"],
        extras={"directory": str(tmp_path), "memory_bytes": 2**33, "health": limits},
    )
    bench.stack("any", ["mpi"], provenance="made for this test")
    bench.record_all()
    outcome = bench.run("-n", "NodeHealth", path="reframe/node").case("NodeHealth")
    assert outcome.result == "fail"
    for cause in (
        "of the memory is free, not 110%",
        "at least 1e+18 are needed",
        "is mounted without gold-plated",
        "health limit 'colour' is unknown",
    ):
        assert cause in " ".join(outcome.record["problems"])
    assert not any("load per processor" in problem for problem in outcome.record["problems"])
    provenance = outcome.record["provenance"]
    assert provenance["suite"]["reframe"].startswith("4.10")
    assert len(provenance["suite"]["requirements_sha256"]) == 64
    assert provenance["stack"]["provenance"] == "made for this test"
    assert provenance["memory"]["MemTotal"] > 0


@pytest.mark.parametrize(
    ("samples", "verdict", "result"),
    [
        ("[1.0, 1.01, 1.0, 0.99, 1.0, 1.02]", "PASS", "pass"),
        ("[0.8, 1.0, 1.0, 1.0, 1.0, 1.0]", "INCONCLUSIVE", "fail"),
        ("[0.8, 0.8, 0.8, 0.8, 0.8, 0.8]", "FAIL", "fail"),
    ],
)
def test_several_launches_are_judged_by_their_interval(bench, samples, verdict, result):
    """ReFrame sees the median only, and would pass what straddles the bound."""
    checks = bench.folder / "checks"
    checks.mkdir()
    measured = f"{{'rate': {samples}, 'time': 1.0}}"
    (checks / "careless.py").write_text(METRIC.format(measured=measured))
    bench.partition()
    bench.stack("any", ["mpi"])
    bench.record_all()
    bench.expect("Careless", {"rate": {"value": 1.0, "unit": "MB/s", "lower": -0.1, "upper": 0.1}})
    outcome = bench.run(path=str(checks)).case("Careless")
    assert outcome.result == result, outcome.reason
    assert outcome.record["metrics"]["rate"]["verdict"] == verdict
    assert outcome.record["verdict"] == verdict
    if verdict == "INCONCLUSIVE":
        assert "INCONCLUSIVE" in outcome.reason
        assert "more launches would decide" in outcome.reason
