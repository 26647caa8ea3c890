"""Programs that lie or die: each one turns the run red, with a message that names the cause.

If the machine has the programs, the fault is injected into a live run of real MPI and the real
benchmark. Otherwise, the test replays a recorded real run with a visible change.
"""

import os
import shlex
import subprocess
import sys

import pytest
from bench import DATA, HPL, Recorded, live_program

from assay.outputs import openmpi

pytestmark = pytest.mark.slow


def test_a_benchmark_killed_half_way(bench):
    """A wrapper kills rank 0 of the real program with SIGKILL after ten lines of output."""
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
    run = bench.live_latency(sys.executable, "-u", killer, PYTHONUNBUFFERED="1")
    outcome = run.case("OsuPy")
    assert run.returncode != 0
    assert outcome.result == "fail"
    assert "ended with exit code 137 (signal 9)" in outcome.reason
    assert "incomplete" in outcome.reason
    assert outcome.record["parsed"]["complete"] is False


def test_a_full_scratch_file_system(bench, tmp_path):
    """The file system has free bytes but no free inode. Without bytes, the test would not start."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    live_program("iozone")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=2", "none", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode().strip()}")
    try:
        bench.storage(small)
        bench.stack("system", ["iozone"])
        bench.record_all()
        run = bench.run("-n", "Iozone.*cached", "--mode", "smoke", path="reframe/storage/iozone.py")
    finally:
        subprocess.run(["umount", str(small)], check=True)
    outcome = run.case("Iozone")
    assert run.returncode != 0
    assert outcome.result == "fail"
    assert "No space left on device" in outcome.reason


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
    bench.record_all()
    run = bench.replayed_hpl(recorded)
    outcome = run.case("Hpl")
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert (run.returncode == 0) is not bool(cause)
    assert cause in outcome.reason


def test_hpl_that_solved_another_problem(bench):
    """Without its own input HPL uses another one, here the input of a larger partition."""
    bench.record_all()
    small = {"memory_bytes": 2**33, "memory_fraction": 0.005}
    outcome = bench.replayed_hpl(HPL, extras=small).case("Hpl")
    assert outcome.result == "fail"
    assert (
        "xhpl solved [{'n': 3840, 'nb': 192, 'p': 1, 'q': 2}], "
        "it was asked for [{'n': 2304, 'nb': 192, 'p': 1, 'q': 2}]"
    ) in outcome.reason


@pytest.mark.parametrize(
    ("recorded", "cause"),
    [(Recorded.load("hpl-study"), ""), (HPL, "xhpl solved [{'n': 3840, ")],
    ids=["all orders", "one order of three"],
)
def test_a_study_of_hpl_that_left_out_an_order(bench, recorded, cause):
    bench.partition(launcher="local")
    bench.replayed("xhpl", ["hpl"], recorded)
    bench.record_all()
    run = bench.run(
        "-n", "^HplStudy%nodes=1$", "--mode", "paper-smoke", path="reframe/compute/hpl_study.py"
    )
    outcome = run.case("HplStudy")
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert cause in outcome.reason


def hpcc(bench, order, name=None):
    """A recorded run of HPCC. The memory holds a matrix of `order`, in blocks of 80."""
    files = {"hpccoutf.txt": (DATA / "hpcc" / name).read_text()} if name else {}
    memory = {"memory_bytes": 16 * order**2, "memory_fraction": 0.5}
    bench.partition(launcher="local", extras=memory)
    bench.replayed("hpcc", ["hpcc"], Recorded("", HPL.stderr, files))
    bench.record_all()
    return bench.run("-n", "Hpcc", "-S", "Hpcc.block=80", path="reframe/compute/hpcc.py").case(
        "Hpcc"
    )


@pytest.mark.parametrize(
    ("order", "name", "cause"),
    [
        (3520, "other_parameters.np2.txt", ""),
        (
            480,
            "other_parameters.np2.txt",
            "hpcc solved [{'n': 3520, 'nb': 80, 'p': 1, 'q': 2}], "
            "it was asked for [{'n': 480, 'nb': 80, 'p': 1, 'q': 2}]",
        ),
        (480, "np3.txt", "hpcc says 3 ranks, 2 were asked for"),
        (480, None, "hpcc left no hpccoutf.txt (No such file or directory)"),
    ],
    ids=["healthy", "another problem", "another world", "no output"],
)
def test_hpcc(bench, order, name, cause):
    outcome = hpcc(bench, order, name)
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert cause in outcome.reason


@pytest.mark.parametrize(
    ("sync", "lost", "cause"),
    [
        (
            "cached",
            "-r 1024k",
            "3 of 9 cells of the table are missing, the first is 1024 KiB by 1024 KiB",
        ),
        ("o_sync", "-o", "iozone did not run o_sync: its header says otherwise"),
        ("direct", "-I", "iozone did not run direct: its header says otherwise"),
        ("cached", "-c", "iozone did not count flush and close into writes (-e -c)"),
    ],
    ids=["missing cells", "not synchronous", "through the cache", "close not counted"],
)
def test_iozone_that_does_less_than_it_was_asked_for(bench, tmp_path, sync, lost, cause):
    """The real program, from which a wrapper removes one option."""
    real = shlex.quote(live_program("iozone"))
    script = f"#!/bin/sh\nexec {real} $(echo \"$*\" | sed 's/ {lost} / /')\n"
    bench.storage(tmp_path)
    bench.stack("forgetful", ["iozone"], bench.program("forgetful", "iozone", script))
    bench.record_all()
    run = bench.run(
        "-n", f"Iozone.*{sync}", "-S", "profile=smoke", path="reframe/storage/iozone.py"
    )
    outcome = run.case("Iozone")
    assert run.returncode != 0
    assert outcome.result == "fail"
    assert cause in outcome.reason


def btio(bench, directory, recorded):
    """A recorded run of BT-IO on a partition with this directory."""
    bench.storage(directory, launcher="local")
    built = {"btio_classes": ["S"], "btio_subtypes": ["full"]}
    bench.replayed("bt.S.x.mpi_io_full", ["btio"], recorded, **built)
    bench.record_all()
    return bench.run("-n", "BtIo.*full.*ompio", path="reframe/storage/btio.py").case("BtIo")


@pytest.mark.parametrize(
    ("name", "cause"), [("btio-full", ""), ("btio-full-enospc", "Verification = UNSUCCESSFUL")]
)
def test_btio_that_failed_its_verification_with_exit_code_0(bench, tmp_path, name, cause):
    outcome = btio(bench, tmp_path, Recorded.load(name))
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert cause in outcome.reason


def test_btio_runs_nowhere_else_where_its_directory_cannot_be_made(bench, tmp_path):
    """The program would also run in the stage directory, but measure another file system."""
    (tmp_path / "file").write_text("")
    outcome = btio(bench, tmp_path / "file", Recorded.load("btio-full"))
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
    bench.partition(launcher="local")
    bench.replayed("osu_latency", ["osu"], recorded, ucx_version="1.13.1", **stated)
    bench.record_all()
    run = bench.run("-n", "Osu%transport=posix.*=latency$", path="reframe/network/osu.py")
    outcome = run.case("Osu")
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert not cause or (
        "OSU 7.2 was not asked to validate what it received: the stack states "
        f"osu_version {cause}" in outcome.reason
    )


def test_the_recorded_run_is_one_world_of_two():
    """The tests above rely on this."""
    world = openmpi.parse(HPL.stderr)
    assert (world.ranks_seen, world.worlds) == (2, 1)
    assert len(HPL.stdout) > 1000
