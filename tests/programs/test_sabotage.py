"""Programs that lie or die: each one turns the run red, with a message that names the cause.

If the machine has the programs, the fault is injected into a live run of real MPI and the real
benchmark. Otherwise, the test replays a recorded real run with a visible change.
"""

import shlex
import sys

import pytest
from bench import DATA, HPL, STUDY, Recorded, live_program

from assay.parse import openmpi

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


def test_hpl_that_solved_another_problem(bench):
    """Without its own input HPL uses another one, here the input of a larger partition."""
    small = {"memory_bytes": 2**33, "memory_fraction": 0.005}
    bench.replayed_hpl(HPL, extras=small).says(
        "Hpl",
        "xhpl solved [{'n': 3840, 'nb': 192, 'p': 1, 'q': 2}], "
        "it was asked for [{'n': 2304, 'nb': 192, 'p': 1, 'q': 2}]",
    )


def test_a_study_of_hpl_that_left_out_an_order(bench):
    bench.partition(launcher="replay")
    runs = {"all-orders": STUDY, "one-of-three": HPL}
    bench.replays("xhpl", ["hpl"], runs)
    case = ("-n", "^HplStudy%nodes=1$", "--mode", "paper-smoke")
    run = bench.run(*case, path="reframe/compute/hpl_study.py")
    run.says("HplStudy", environ="all-orders")
    run.says("HplStudy", "xhpl solved [{'n': 3840, ", environ="one-of-three")


#: Stack -> the output file of HPCC, and why its run must not pass.
HPCC = {
    "healthy": ("other_parameters.np2.txt", ""),
    "another-problem": (
        "np2.txt",
        "hpcc solved [{'n': 1000, 'nb': 80, 'p': 1, 'q': 2}], "
        "it was asked for [{'n': 3520, 'nb': 80, 'p': 1, 'q': 2}]",
    ),
    "another-mapping": (
        "other_parameters.np2.txt",
        "HPL ran WC11C2R4 (column T/V), its input file asks for WR11C2R4",
    ),
    "another-world": ("np3.txt", "hpcc says 3 ranks, 2 were asked for"),
    "no-output": (None, "hpcc left no hpccoutf.txt (No such file or directory)"),
}


def test_hpcc(bench):
    """Recorded runs of HPCC. The memory holds a matrix of order 3520, in blocks of 80."""
    memory = {"memory_bytes": 16 * 3520**2, "memory_fraction": 0.5}
    bench.partition(launcher="replay", extras=memory)
    for name, (file, _) in HPCC.items():
        files = {"hpccoutf.txt": (DATA / "hpcc" / file).read_text()} if file else {}
        if name == "healthy":  # recorded with the mapping that HPCC chooses without an input file
            files = {key: text.replace("WC11C2R4", "WR11C2R4") for key, text in files.items()}
        bench.replays("hpcc", ["hpcc"], {name: Recorded("", HPL.stderr, files)})
    run = bench.run("-n", "Hpcc", "-S", "Hpcc.block=80", path="reframe/compute/hpcc.py")
    for name, (_, cause) in HPCC.items():
        run.says("Hpcc", cause, environ=name)


def test_iozone_that_does_less_than_it_was_asked_for(bench, tmp_path):
    """The real program, from which wrappers remove options."""
    real = shlex.quote(live_program("iozone"))
    bench.storage(tmp_path)
    for name, lost in (("fewer-records", "-r 1024k"), ("careless", "-[coI]")):
        script = f"#!/bin/sh\nexec {real} $(echo \"$*\" | sed 's/ {lost}\\b//g')\n"
        bench.stack(name, ["iozone"], bench.program(name, "iozone", script))
    run = bench.run("-n", "Iozone%", "-S", "profile=smoke", path="reframe/storage/iozone.py")
    cells = "3 of 9 cells of the table are missing, the first is 1024 KiB by 1024 KiB"
    run.says("Iozone %sync=cached", cells, environ="fewer-records")
    flushes = "iozone did not count flush and close into writes (-e -c)"
    run.says("Iozone %sync=cached", flushes, environ="careless")
    for sync in ("o_sync", "direct"):
        said = f"iozone did not run {sync}: its header says otherwise"
        run.says(f"Iozone %sync={sync}", said, environ="careless")


def test_btio_that_failed_its_verification_with_exit_code_0(bench, tmp_path):
    run = bench.replayed_btio(tmp_path, Recorded.load("btio-full-enospc"))
    run.says("BtIo", "Verification = UNSUCCESSFUL")


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


def test_an_osu_that_was_not_asked_to_validate(bench):
    old = Recorded.load("osu-latency-posix")
    new = old.but(stdout=old.stdout.replace("v5.7", "v7.2"))
    bench.partition(launcher="replay")
    runs = {"cannot-validate": old, "not-stated": new}
    bench.replays("osu_latency", ["osu"], runs, ucx_version="1.13.1")
    for name, version in {"an-old-one-stated": "5.7", "asked-in-vain": "7.2"}.items():
        stated = {"ucx_version": "1.13.1", "osu_version": version}
        bench.replays("osu_latency", ["osu"], {name: new}, **stated)
    run = bench.run("-n", "Osu%transport=posix.*=latency$", path="reframe/network/osu.py")
    said = "OSU 7.2 was not asked to validate what it received: the stack states osu_version "
    run.says("Osu", environ="cannot-validate")
    run.says("Osu", f"{said}not at all", environ="not-stated")
    run.says("Osu", f"{said}5.7", environ="an-old-one-stated")
    said = "OSU 7.2 was asked to validate what it received (-c), and its table has no column"
    run.says("Osu", said, environ="asked-in-vain")


def test_the_recorded_run_is_one_world_of_two():
    """The tests above rely on this."""
    world = openmpi.parse_openmpi(HPL.stderr)
    assert (world.ranks_seen, world.worlds) == (2, 1)
    assert len(HPL.stdout) > 1000
