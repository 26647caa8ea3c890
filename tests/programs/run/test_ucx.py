"""A run must prove one world of the right size over the path under test, or it is red."""

import shlex
import sys

import pytest
from bench import HELLO, HPL, Recorded, live_program, live_ucx, processor
from few_messages import latency, perftest, problems

from assay import catalogue

pytestmark = pytest.mark.slow


def test_a_healthy_run_passes_with_its_proof(bench):
    run = latency(bench)
    outcome = run.case("OsuPy")
    proof = outcome.record["proof"]
    assert proof["pml"] == ["ucx"]
    assert proof["ranks"] == {"asked": 2, "seen": 2, "cores": 2}
    assert proof["ucx"] == live_ucx()
    assert set(proof["lanes"]) == {"posix/memory"}
    assert problems(outcome) == []
    if not outcome.record["problems"]:
        assert (run.returncode, outcome.result) == (0, "pass"), run.output
        assert outcome.record["verdict"] == "PASS"


@pytest.mark.long
def test_tcp_behind_the_back_of_the_test(bench):
    run = latency(bench, "env", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo")
    said = "UCX_TLS was tcp,self where the program ran, posix,self was asked for"
    run.says("OsuPy", "tcp/lo carried messages", said)


def test_another_pml_behind_the_back_of_the_test(bench):
    run = latency(bench, "env", "OMPI_MCA_pml=ob1")
    run.says("OsuPy", "Open MPI chose the pml ob1; ucx was asked for", "UCX printed nothing")


def test_a_setting_that_steers_open_mpi_is_accepted_where_the_site_has_it(bench):
    """Behind the back of the test it is fault 3b of the fault matrix."""
    variables = [["OMPI_MCA_btl", "tcp,self"]]
    bench.replayed_hpl(Recorded.load("hpl-btl-tcp"), env_vars=variables).says("Hpl")


#: A program for ucx_perftest whose server ends as late as its log.
LATE = """\
case "$*" in
127.0.0.1*) client "$@"; exit ;;
-h) exec {real} "$@" ;;
esac
UCX_LOG_FILE=late.%p {real} "$@"; rc=$?
sleep 0.5
mv late.* ucx.late.$$.log
exit $rc
"""

#: Leaves its logs as if they were of another host. Server and client both do so, and neither copies
#: what the other one left.
STRANGE = """\
case "$*" in
127.0.0.1*) client "$@" ;;
*) {real} "$@" ;;
esac
rc=$?
for log in ucx.*.log; do
    case $log in ucx.node9.*) continue ;; esac
    sed "s/ \\[[^ :]*:/ [node9:/" "$log" >"ucx.node9.$$.log"
done
exit $rc
"""


LATENCY = ("-n", "UcxPerftest.*posix.*tag_lat")


def test_a_server_whose_log_comes_late_is_waited_for(bench):
    perftest(bench, *LATENCY, program=LATE).says("Ucx")


def test_logs_of_ucx_perftest_of_another_host(bench):
    perftest(bench, *LATENCY, program=STRANGE).says("Ucx", "the program ran on node9; the job has")


#: Replacements for mpirun, and the message about the world. A launcher of another MPI starts the
#: program twice, and each process finds a world of one rank.
WORLDS = {
    "as-asked": ('{mpirun} -np 2 "$@"', ""),
    "two-singletons": (
        '"$@" & "$@"; wait',
        "2 worlds came up instead of one of 2 ranks",
    ),
    "too-small": ('{mpirun} -np 1 "$@"', "the world has 1 ranks, 2 were asked for"),
    "too-large": (
        '{mpirun} --oversubscribe -np 3 "$@"',
        "the world has 3 ranks, 2 were asked for",
    ),
}


def test_another_world_than_was_asked_for_though_it_exits_with_0(bench):
    live_ucx()
    mpirun = shlex.quote(live_program("mpirun"))
    bench.partition()
    for name, (command, _) in WORLDS.items():
        start = command.format(mpirun=mpirun)
        # Each launch ends with 0, also if mpirun was too busy to hear how its ranks ended.
        script = f'#!/bin/sh\n[ "$1 $2" = "-np 2" ] || exit 3\nshift 2\n{start}\nexit 0\n'
        bench.stack(name, ["mpi"], bench.program(name, "mpirun", script))
    run = bench.run(path=bench.check("hello", HELLO.format(python=sys.executable)))
    for name, (_, cause) in WORLDS.items():
        outcome = run.case("Hello", name)
        if cause:
            outcome.says(cause)
        else:
            assert outcome.record["proof"]["ranks"]["seen"] == 2
            assert problems(outcome) == []
        assert "exit code" not in outcome.reason
    assert run.returncode == 1


def test_a_program_that_is_not_linked_to_open_mpi(bench):
    said = "Open MPI printed nothing about its world: is the program linked to another MPI?"
    bench.replayed_hpl(HPL.but(stderr="")).says("Hpl", said)


def test_hpl_faster_than_any_core(bench):
    """Order, time and rate agree: a clock that runs at a thousandth of its speed shows this."""
    row = "1.11             3.3957e+01"
    assert row in HPL.stdout
    fast = HPL.but(stdout=HPL.stdout.replace(row, "0.00             3.3957e+04"))
    said = "33957 GFLOP/s on 2 cores: no core computes more than 320 GFLOP/s"
    bench.replayed_hpl(fast).says("Hpl", said)


def test_one_core_is_too_few_for_all_that_needs_two(bench):
    bench.partition(processor=processor(1))
    bench.stack("all", ["osu", "netpipe", "hpcc"], ucx_version="1.13.1")
    files = [word for name in ("netpipe", "osu") for word in ("-c", f"reframe/network/{name}.py")]
    run = bench.run("-n", "Osu|NetPipe|Hpcc", *files, path="reframe/compute/hpcc.py")
    assert run.cases
    assert {outcome.result for outcome in run.cases.values()} == {"skip"}
    assert "2 ranks are needed; bench:here has cores for 1" in run.output


def test_a_server_and_a_client_are_not_started_on_one_core(bench):
    """Without a second processor the client got none, and ended with an error."""
    bench.partition(processor=processor(1))
    bench.stack("any", sorted(catalogue.PROGRAMS), ucx_version="1.13.1")
    those = (
        "-n",
        "UcxPerftest.*posix.*_lat|FabtestsRma.*read.*tcp",
        "-c",
        "reframe/network/fabtests.py",
    )
    run = bench.run(*those, path="reframe/network/ucx_perftest.py")
    assert {name.split()[0] for name, *_ in run.cases} == {"UcxPerftest", "FabtestsRma"}
    assert {case.result for case in run.cases.values()} == {"skip"}
    assert "2 ranks are needed; bench:here has cores for 1" in run.output


def test_what_cannot_be_run_over_a_transport_is_said(bench):
    bench.partition()
    bench.stack("unnamed", ["netpipe", "ucx", "ucx-perftest"])
    bench.stack("broken", ["netpipe", "ucx", "ucx-perftest"], ucx_version="1.20.1")
    those = ("-n", "NetPipe.*=tcp|UcxPerftest.*=cma.*tag_lat", "-c", "reframe/network/netpipe.py")
    run = bench.run(*those, path="reframe/network/ucx_perftest.py")
    assert len(run.cases) == 4
    assert {outcome.result for outcome in run.cases.values()} == {"skip"}
    assert "this stack does not say which UCX it has (ucx_version)" in run.output
    assert "UCX 1.20.1 cannot run tcp over lo" in run.output
    assert "UCX sends small messages over posix even if cma is requested" in run.output


def test_ranks_that_cannot_read_each_others_memory_are_said_to(bench):
    """Open MPI does not report this itself if it is told beforehand."""
    bench.partition(launcher="replay")
    bench.replays("xhpl", ["hpl"], {"together": HPL})
    bench.replays("xhpl", ["hpl"], {"apart": HPL}, user_namespaces=True)
    run = bench.run("-n", "^Hpl$", "--mode", "smoke", path="reframe/compute/hpl.py")
    proofs = [run.case("Hpl", name).record["proof"] for name in ("together", "apart")]
    said = "CMA is off: the ranks are in different user namespaces"
    assert [proof.get("single_copy") for proof in proofs] == [None, said]


def test_netpipe_leaves_its_launcher_one_stream(bench):
    """With two streams mpirun of Open MPI 5.0.7 moves pieces of a row from one to the other."""
    bench.partition()
    launcher = '#!/bin/sh\nwhile [ "$1" = -np ] || [ "$1" = -x ]; do shift 2; done\nexec "$@"\n'
    bench.program("noisy", "mpirun", launcher)
    said = "#!/bin/sh\necho '0: node'\necho 'Now starting the main loop' >&2\n"
    path = bench.program("noisy", "NPmpi", said)
    bench.stack("noisy", ["netpipe"], path, ucx_version="1.13.1", netpipe_command="NPmpi")
    bench.run("-n", "NetPipe.*=posix", path="reframe/network/netpipe.py")
    (stage,) = bench.results.glob("stage/*/bench/here/noisy/NetPipe_*")
    assert (stage / "rfm_job.out").read_text() == ""
    assert "main loop" in (stage / "rfm_job.err").read_text()
