"""Programs that lie or die: each one turns the run red, with a message that names the cause.

If the machine has the programs, the fault is injected into a live run of real MPI and the real
benchmark. Otherwise, the test replays a recorded real run with a visible change.
"""

import shlex
import sys

import pytest
from bench import DATA, HPL, STUDY, Recorded, live_program, mounted

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
    outcome = run.says("OsuPy", "ended with exit code 137 (signal 9)", "incomplete")
    assert outcome.record["parsed"]["complete"] is False


def test_a_full_scratch_file_system(bench, tmp_path):
    """The file system has free bytes but no free inode. Without bytes, the test would not start."""
    live_program("iozone")
    with mounted("tmpfs", tmp_path / "small", "-o", "size=64m,nr_inodes=2") as small:
        bench.storage(small)
        bench.stack("system", ["iozone"])
        bench.record_all()
        run = bench.run("-n", "Iozone.*cached", "--mode", "smoke", path="reframe/storage/iozone.py")
    run.says("Iozone", "No space left on device")


def test_hpl_that_solved_another_problem(bench):
    """Without its own input HPL uses another one, here the input of a larger partition."""
    bench.record_all()
    small = {"memory_bytes": 2**33, "memory_fraction": 0.005}
    bench.replayed_hpl(HPL, extras=small).says(
        "Hpl",
        "xhpl solved [{'n': 3840, 'nb': 192, 'p': 1, 'q': 2}], "
        "it was asked for [{'n': 2304, 'nb': 192, 'p': 1, 'q': 2}]",
    )


@pytest.mark.parametrize(
    ("recorded", "cause"),
    [(STUDY, ""), (HPL, "xhpl solved [{'n': 3840, ")],
    ids=["all orders", "one order of three"],
)
def test_a_study_of_hpl_that_left_out_an_order(bench, recorded, cause):
    bench.partition(launcher="local")
    bench.replayed("xhpl", ["hpl"], recorded)
    bench.record_all()
    run = bench.run(
        "-n", "^HplStudy%nodes=1$", "--mode", "paper-smoke", path="reframe/compute/hpl_study.py"
    )
    run.says("HplStudy", cause)


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
    """A recorded run of HPCC. The memory holds a matrix of `order`, in blocks of 80."""
    files = {"hpccoutf.txt": (DATA / "hpcc" / name).read_text()} if name else {}
    memory = {"memory_bytes": 16 * order**2, "memory_fraction": 0.5}
    bench.partition(launcher="local", extras=memory)
    bench.replayed("hpcc", ["hpcc"], Recorded("", HPL.stderr, files))
    bench.record_all()
    run = bench.run("-n", "Hpcc", "-S", "Hpcc.block=80", path="reframe/compute/hpcc.py")
    run.says("Hpcc", cause)


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
    run.says("Iozone", cause)


@pytest.mark.parametrize(
    ("name", "cause"), [("btio-full", ""), ("btio-full-enospc", "Verification = UNSUCCESSFUL")]
)
def test_btio_that_failed_its_verification_with_exit_code_0(bench, tmp_path, name, cause):
    bench.replayed_btio(tmp_path, Recorded.load(name)).says("BtIo", cause)


def test_btio_of_another_subtype_than_was_asked_for(bench, tmp_path):
    """A program of the right name that writes otherwise: its banner and its I/O say so."""
    full = Recorded.load("btio-full")
    other = full.but(stdout=full.stdout.replace("BTIO -- FULL MPI-IO", "BTIO -- SIMPLE MPI-IO"))
    assert other != full
    cause = "the program was bt.S.x.mpi_io_simple, bt.S.x.mpi_io_full was asked for"
    bench.replayed_btio(tmp_path, other).says("BtIo", cause)


def test_btio_runs_nowhere_else_where_its_directory_cannot_be_made(bench, tmp_path):
    """The program would also run in the stage directory, but measure another file system."""
    (tmp_path / "file").write_text("")
    run = bench.replayed_btio(tmp_path / "file", Recorded.load("btio-full"))
    run.says("BtIo", "the job script did not reach its end", "Not a directory")


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
    said = "OSU 7.2 was not asked to validate what it received: the stack states osu_version "
    run.says("Osu", said + cause if cause else "")


def test_the_recorded_run_is_one_world_of_two():
    """The tests above rely on this."""
    world = openmpi.parse(HPL.stderr)
    assert (world.ranks_seen, world.worlds) == (2, 1)
    assert len(HPL.stdout) > 1000
