"""Settings from outside the test are stated, doubted or a fault: live runs of real programs."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import few_messages
import pytest
import yaml
from bench import DATA, HELLO, OF_NOW, OWN, live_program

pytestmark = pytest.mark.slow

STALE = DATA / "openmpi/4.1.4/packaged.np2.txt"

#: Name of a fault -> what the mpirun of its stack does, and what must be said. `$@` is what the job
#: script gives to mpirun; `{here}` is a directory with the files of `files`.
FAULTS = {
    "healthy": ("", ""),
    "params-file": (
        "export HOME={here}",
        "pml is set to ob1 by {here}/.openmpi/mca-params.conf:1, which is no file of the machine",
    ),
    "other-params-file": (
        "export OMPI_MCA_mca_base_param_files={here}/.openmpi/mca-params.conf",
        "btl is set to self,vader by {here}/.openmpi/mca-params.conf:2",
    ),
    "one-core": (
        'shift 2; set -- -np 2 taskset -c 0 "$@"',
        "2 ranks on {host} share 1 core (processors 0)",
    ),
    "provider": (
        "export FI_PROVIDER=tcp",
        "FI_PROVIDER=tcp was set outside of the test",
    ),
    "other-library": (
        "export LD_LIBRARY_PATH={here}/lib",
        "{here}/lib/{library} was loaded, which is not of this stack",
    ),
    "preloaded-library": (
        "export LD_PRELOAD={here}/lib/{library}",
        "{here}/lib/{library} was loaded, which is not of this stack",
    ),
    "stale-output": (
        f"cat {STALE} >&2; exit 0",
        "this launch started 0 ranks, 2 were asked for",
    ),
    "stale-ranks": (
        f"{{mpirun}} \"$@\" 2>/dev/null; sed 's/.vm:/['$(uname -n):/ {STALE} >&2; exit 0",
        "which this launch did not start: is it the output of another launch?",
    ),
    "stale-date": (
        "echo Run began: Fri Nov 20 11:28:04 2020",
        "the output is dated 2020-11-20",
    ),
    "ucx-error": (
        "echo '[1.0] [vm:1:0]  x.c:1  UCX  ERROR no transport' >&2",
        "UCX ERROR: no transport",
    ),
}


#: The same of settings that may change what is measured: the case passes, and the run is PARTIAL.
DOUBTS = {
    "no-binding": (
        'set -- --bind-to none "$@"',
        "OMPI_MCA_hwloc_base_binding_policy=none was set outside of the test",
    ),
    "ucx-variable": ("export UCX_RNDV_THRESH=0", "UCX_RNDV_THRESH=0 was set outside of the test"),
    "allocator": ("export MALLOC_ARENA_MAX=1", "MALLOC_ARENA_MAX=1 was set outside of the test"),
    "ucx-conf": (
        "export UCX_CONFIG_DIR={here}",
        "UCX_RNDV_THRESH is set to 0 by {here}/ucx.conf:1",
    ),
    "preload": ("export LD_PRELOAD=libm.so.6", "LD_PRELOAD=libm.so.6 was set outside of the test"),
}

#: The same of settings that change no measurement.
NOTES = {
    "symbols": ("export LD_BIND_NOW=1", "LD_BIND_NOW=1 was set outside of the test"),
    "crash": ("export UCX_HANDLE_ERRORS=bt", "UCX_HANDLE_ERRORS=bt was set outside of the test"),
    "vfs": ("export UCX_VFS_ENABLE=n", "UCX_VFS_ENABLE=n was set outside of the test"),
}


def library():
    """A library of Open MPI that its programs find by the search path of the linker."""
    return min(Path("/usr/lib").glob("*/libopen-pal.so.??"))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """The outcome of each fault; one run of ReFrame has a stack for each."""
    from bench import Bench

    mpirun = shlex.quote(live_program("mpirun"))
    bench = Bench(tmp_path_factory.mktemp("steering"))
    here = bench.folder / "given"
    (here / ".openmpi").mkdir(parents=True)
    (here / ".openmpi/mca-params.conf").write_text("pml = ob1\nbtl = self,vader\n")
    (here / "ucx.conf").write_text("UCX_RNDV_THRESH=0\n")
    (here / "lib").mkdir()
    shutil.copy(library(), here / "lib" / library().name)
    bench.partition()
    for name, (fault, _) in {**FAULTS, **DOUBTS, **NOTES}.items():
        lines = fault.format(here=here, mpirun=mpirun, library=library().name)
        script = f'#!/bin/sh\n{lines}\nexec {mpirun} "$@"\n'
        bench.stack(name, ["mpi"], bench.program(name, "mpirun", script))
    bench.record_all()
    run = bench.run("-n", "Hello", path=bench.check("hello", HELLO.format(python=sys.executable)))
    return here, {environ: outcome for (_, environ, _), outcome in run.cases.items()}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_steers_a_run_from_outside_is_named(outcomes, fault):
    here, found = outcomes
    cause = FAULTS[fault][1]
    if not cause:
        assert found[fault].result == "pass", found[fault].reason
        return
    problems = found[fault].record["problems"]
    host = found["healthy"].record["proof"]["binding"][0]["host"]
    said = cause.format(here=here, host=host, library=library().name)
    assert found[fault].result == "fail"
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize("name", [*DOUBTS, *NOTES])
def test_a_setting_that_contradicts_nothing_is_stated(outcomes, name):
    here, found = outcomes
    said = {**DOUBTS, **NOTES}[name][1].format(here=here, library=library().name)
    assert found[name].result == "pass", found[name].reason
    record = found[name].record
    lines = record["doubts" if name in DOUBTS else "notes"]
    assert any(line.startswith(said) for line in lines), lines
    assert name in DOUBTS or record["doubts"] == []


def test_a_healthy_run_states_its_cores_and_libraries(outcomes):
    record = outcomes[1]["healthy"].record
    assert (record["doubts"], record["notes"]) == ([], [])
    assert len(record["settings"]["sha256"]) == 64
    proof = outcomes[1]["healthy"].record["proof"]
    first, second = (set(rank["cpus"]) for rank in proof["binding"])
    assert first
    assert second
    assert not first & second
    assert {len(digest) for digest in proof["libraries"].values()} == {64}
    assert any(Path(path).name.startswith("libmpi.so") for path in proof["libraries"])
    assert proof["pml"] == ["ob1"]


@pytest.mark.long
def test_another_libucp_and_a_variable_of_ucx_behind_the_witness(bench, tmp_path):
    """They are set between the witness of the rank and the program: UCX itself names them."""
    live_program("mpirun")
    found = min(Path("/usr/lib").glob("*/libucp.so.?"), default=None)
    if found is None:
        pytest.skip("needs UCX on this machine")
    shutil.copy(found, tmp_path / found.name)
    run = bench.live_latency("env", "UCX_RNDV_THRESH=0", f"LD_LIBRARY_PATH={tmp_path}")
    problems = run.case("OsuPy").record["problems"]
    doubts = run.case("OsuPy").record["doubts"]
    assert any(line.startswith("UCX_RNDV_THRESH=0 was set outside") for line in doubts), doubts
    (other,) = [problem for problem in problems if "was loaded" in problem]
    assert other.startswith(f"{tmp_path}/{found.name} was loaded, which is not of this stack")


BASH_ENV = """\
@rfm.simple_test
class Plain(Own):
    executable = "sleep"
    executable_opts = ["0"]
"""


def test_a_function_of_bash_env_that_hides_the_program(bench, tmp_path):
    bench.partition(launcher="replay")
    bench.stack("any", ["hpl"])
    bench.record_all()
    (tmp_path / "env").write_text("sleep() { command sleep 0; }\nharmless() { :; }\n")
    path = bench.check("own", OWN + BASH_ENV)
    run = bench.run("-n", "Plain", path=path, BASH_ENV=str(tmp_path / "env"))
    (doubt,) = run.case("Plain").record["doubts"]
    assert doubt.startswith("the shell of the job has a function or an alias sleep, which hides")
    assert doubt.endswith(f"unset BASH_ENV, which is {tmp_path}/env")
    assert doubt in run.output
    assert run.case("Plain").result == "pass"


def test_a_machine_with_other_settings_than_its_references(bench):
    bench.partition(launcher="replay")
    bench.stack("any", ["hpl"])
    bench.record_all()
    source = {"date": "2026-11-20", "n": 6, "where": "node01", "settings": "0" * 64}
    calibrated = {
        "for": {"partition": "here", "test": "Plain"},
        "metrics": {"rate": {"value": 1.0, "unit": "MB/s", "lower": -0.1, "upper": 0.5}},
        "source": source,
    }
    (bench.site / "calibrated.yaml").write_text(yaml.safe_dump({"references": [calibrated]}))
    run = bench.own(BASH_ENV)
    (doubt,) = run.case("Plain").record["doubts"]
    assert doubt.startswith("the references of this case were calibrated under other settings")


def test_a_pml_that_the_site_does_not_expect(bench):
    live_program("mpirun")
    bench.ready(extras={"pml": "ucx", "memory_bytes": 2**33})
    checks = bench.check("hello", HELLO.format(python=sys.executable))
    said = "Open MPI chose the pml ob1; the site says ucx (extra `pml`)"
    bench.run("-n", "Hello", path=checks).says("Hello", said)


OTHERS = """\
@rfm.simple_test
class Nonce(Own):
    executable = "sh"
    executable_opts = ["-c", "'echo other >assay.nonce'"]


@rfm.simple_test
class Old(Own):
    executable = "sh"
    executable_opts = ["-c", "'echo 1 >table; touch -d 2001-09-09 table'"]
    keep_files = ["table"]


@rfm.simple_test
class Killed(Own):
    executable = "sh"
    executable_opts = ["-c", "'rm witness.sh'"]
"""


def test_files_of_another_launch(bench):
    bench.partition()
    bench.stack("any", ["mpi"])
    bench.record_all()
    run = bench.own(OTHERS)
    for test, said in (
        ("Nonce", "assay.witness is of another launch"),
        ("Old", "table is older than the launch: it was written at 2001-09-0"),
        ("Killed", "assay.witness cannot be read"),
    ):
        assert said in run.case(test).reason


#: A `date` that runs at a tenth of its speed, and one that jumps back by 31 years.
CLOCKS = {
    "slow": "now=$(($({date} +%s%N) / 10000000000)).0",
    "jumps": "now=$(($({date} +%s) - 986000000 * $(ls begun | wc -l))).0; touch begun",
}
CLOCK = """\
#!/bin/sh
case $1 in +%s.%N*) ;; *) exec {date} "$@" ;; esac
{now}
case $1 in *zone*) now="$now zone=+0000" ;; esac
echo "$now"
"""


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_clock_that_is_wrong(bench, clock):
    date = live_program("date")
    script = CLOCK.format(date=date, now=CLOCKS[clock].format(date=date))
    bench.partition(launcher="replay")
    bench.stack("clock", ["hpl"], bench.program("clock", "date", script))
    bench.record_all()
    run = bench.own("@rfm.simple_test\nclass Still(Own):\n    executable_opts = ['']\n")
    assert "the clock of" in run.case("Still").reason


#: Opens a file as it is told, and holds it until the watch of the job has seen it.
HOLD = shlex.join([sys.executable, str(Path(__file__).parents[1] / "hold_file.py")])

#: Name of a fault -> the mode that is asked for, what is put before each program, the command line
#: of IOzone, what is done to its output, and what must be said.
WRAPPED = {
    "elsewhere": (
        "cached",
        "",
        "echo \"$*\" | sed 's| -f [^ ]*| -f {elsewhere}|'",
        "",
        "no process was seen to write a file in {folder}; {elsewhere}",
    ),
    "preloaded": (
        "cached",
        "env LD_PRELOAD=libm.so.6 ",
        'echo "$*"',
        "",
        "LD_PRELOAD=libm.so.6 was set for the process that wrote",
    ),
    "not synchronous": (
        "o_sync",
        "",
        "echo \"$*\" | sed 's| -o | |'",
        " | sed -e 's|^\\tCommand line|\\tSYNC Mode. \\n&|' -e 's| -c -s | -c -o -s |'",
        "the files were open for writing without O_SYNC in",
    ),
}
LYING = """\
#!/bin/sh
set -e
set -- $({options})
for file; do :; done
{first}{real} "$@"{after}
{first}{hold} "$file"
"""


@pytest.mark.parametrize("name", WRAPPED)
def test_iozone_that_did_not_write_as_it_was_told(bench, tmp_path, name):
    """The real program. Its output looks as if it had done what it was asked for.

    The watch may miss how the program itself opens its files, so one is held open in the same way.
    """
    sync, first, options, after, cause = WRAPPED[name]
    elsewhere = f"/dev/shm/assay-elsewhere.{os.getpid()}"
    script = LYING.format(
        first=first,
        real=shlex.quote(live_program("iozone")),
        options=options.format(elsewhere=elsewhere),
        after=after,
        hold=HOLD,
    )
    bench.storage(tmp_path)
    bench.stack("lying", ["iozone"], bench.program("lying", "iozone", script))
    bench.record_all()
    run = bench.run(
        "-n", f"Iozone.*{sync}", "-S", "profile=smoke", path="reframe/storage/iozone.py"
    )
    case = run.case("Iozone")
    problems = case.record["problems"]
    assert (case.result, case.record["verdict"]) == ("fail", "FAIL")
    said = cause.format(folder=tmp_path, elsewhere=elsewhere)
    assert any(said in problem for problem in problems), problems
    assert not any("header" in problem for problem in problems), problems


#: Prints a recorded run of IOzone, with the date of today. Before that, it does `first`.
RECORDED = """\
#!/bin/sh
for file; do :; done
{first}
{of_now}
of_now {recorded}
"""


@pytest.fixture(scope="module")
def iozones(tmp_path_factory):
    """The outcome of the real IOzone, and of two programs that print a recorded run of it."""
    from bench import Bench

    live_program("iozone")
    bench = Bench(tmp_path_factory.mktemp("iozones"))
    recorded = DATA / "replay/iozone-smoke-o_sync/stdout"
    bench.storage(tmp_path_factory.mktemp("directory"))
    bench.stack("real", ["iozone"])
    for name, first in {"writes": f'{HOLD} "$file" O_SYNC', "echo": ""}.items():
        script = RECORDED.format(first=first, of_now=OF_NOW, recorded=shlex.quote(str(recorded)))
        bench.stack(name, ["iozone"], bench.program(name, "iozone", script))
    bench.record_all()
    run = bench.run("-n", "Iozone.*o_sync", "-S", "profile=smoke", path="reframe/storage/iozone.py")
    return lambda stack: run.case("Iozone", environ=stack)


def test_iozone_that_wrote_as_it_was_told(iozones):
    case = iozones("writes")
    assert case.result == "pass", case.reason
    files = case.record["proof"]["storage"]["files"]
    assert [(file["o_sync"], file["written"]) for file in files] == [(True, True)]


def test_an_iozone_that_nobody_saw_write_decides_nothing(iozones):
    """The output is that of the run which passes."""
    case = iozones("echo")
    assert (case.result, case.record["verdict"]) == ("fail", "INCONCLUSIVE")
    assert "the watch over open files saw nobody write a file" in case.reason
    assert "busy" not in case.record


def test_the_real_iozone_runs_as_it_is_told(iozones):
    """How fast it was, and whether the watch saw it, depend on the load of the machine."""
    record = iozones("real").record
    assert record["parsed"]["complete"] is True
    assert len(record["parsed"]["rows"]) == 9
    assert record["proof"]["mode"] == {"sync": "o_sync", "fsync_timed": True, "close_timed": True}
    assert not [said for said in record.get("problems", []) if "iozone" in said]


def test_no_value_that_is_not_listed_and_no_user_of_an_address_is_left_anywhere(bench):
    """The variables are named, because they may steer what is measured."""
    names = ("UCX_APIKEY", "UCX_AUTH", "OMPI_MCA_btl_PASS", "OMP_PASSPHRASE", "RFM_TOMORROW_KEY")
    address = "http://me:s3cret@127.0.0.1:9"
    run = few_messages.latency(
        bench,
        RFM_HTTPJSON_URL=address,
        RFM_KEEP_STAGE_FILES="yes",
        RFM_SETVARS=f"OsuPy.descr={address}",
        OMPI_MCA_plm_rsh_agent=f"ssh {address}",
        **dict.fromkeys(names, "s3cret of this test"),
    )
    assert "s3cret" not in run.output
    files = [path for path in bench.results.rglob("*") if path.is_file()]
    assert {"reframe.log", "session.json", "assay.json"} <= {path.name for path in files}
    assert [path for path in files if b"s3cret" in path.read_bytes()] == []
    case = run.case("OsuPy")
    assert "this UCX does not read UCX_APIKEY" in case.reason
    for name in names[:2]:
        said = f"{name} (value not recorded) was set outside of the test"
        assert any(line.startswith(said) for line in case.record["doubts"]), case.record["doubts"]
    assert case.record["settings"]["ranks"]["OMPI_MCA_btl_PASS"] == "***"
