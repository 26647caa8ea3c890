"""BcastStream with the MPI of this machine: compiled, run, and made to fail.

The faults of the output are on a recorded run; tests/programs/test_recorded_faults.py explains the
file that lists them.
"""

import shlex

import pytest
import yaml
from bench import ROOT, Recorded, live_program, live_ucx

from assay.describe import ask, detect

pytestmark = pytest.mark.slow

DATA = ROOT / "studies/tests/data"
PATH = "studies/doc001/broadcast.py"

#: Stack -> what its mpirun does with the command line, and what must be said.
FAULTS = {
    "healthy": ("", ""),
    "withheld": ('set -- "$@" -y 5', "1 frames were lost for good"),
    # The program ends with 1 if it finds a wrong frame. Its output alone is enough.
    "silent": ('{mpirun} "$@" -x 3; exit 0', "1 frames had a wrong payload"),
    "fewer-frames": (
        'set -- "$@" -f 100',
        "a round sent 100 frames of 64 B and 100 alone, 400 and 100 were asked for",
    ),
    "smaller-window": ('set -- "$@" -w 8', "the window was 8, 16 was asked for"),
    "one-size": ('set -- "$@" -s 64', "8 rounds ran, 32 were asked for, and 24 of these are"),
}


def stream(bench):
    return bench.run("-n", "BcastStream%.*posix", "-S", "profile=smoke", path=PATH)


def test_the_recorded_run_passes_and_each_fault_fails_with_its_reason(bench):
    spec = yaml.safe_load((DATA / "replay/bcast-stream.yaml").read_text())
    bench.catches(spec, Recorded.load("bcast-stream", DATA), PATH)


def test_a_compiled_stream_passes_and_each_fault_is_named(bench):
    if "ompi_communicator_t" not in ask.output(*detect.HEADER):
        pytest.skip(
            "needs mpicc on this machine"
        )  # the wrapper alone has no header to compile with
    stated = {"ucx_version": live_ucx()}
    mpirun = shlex.quote(live_program("mpirun"))
    bench.partition()
    for name, (fault, _) in FAULTS.items():
        script = f'#!/bin/sh\n{fault.format(mpirun=mpirun)}\nexec {mpirun} "$@"\n'
        path = bench.program(name, "mpirun", script)
        bench.stack(name, ["mpi", "mpicc", "ucx"], path, **stated)
    run = stream(bench)
    for name, (_, cause) in FAULTS.items():
        if cause:
            case = run.case("BcastStream", environ=name)
            assert case.result == "fail", name
            # On a busy machine other problems may come before this one.
            problems = case.record["problems"]
            assert any(cause in problem for problem in problems), (name, problems)
    record = run.case("BcastStream", environ="healthy").record
    # Two ranks on a busy machine may lose half of their rate, with or without loss of frames.
    assert [said for said in record["problems"] if "must remain" not in said] == []
    assert record["proof"]["ranks"]["seen"] == 2


def test_a_compiler_that_fails_and_an_image(bench):
    bench.partition(launcher="replay")
    script = (
        "#!/bin/sh\necho 'bcast_stream.c:23:10: fatal error: mpi.h: No such file' >&2\nexit 1\n"
    )
    path = bench.program("broken", "mpicc", script)
    bench.stack("broken", ["mpi", "mpicc", "ucx"], path, ucx_version="1.13.1")
    image = {"image": "/none.sif", "ucx_version": "1.13.1"}
    bench.stack("image", ["mpi", "mpicc", "ucx"], path, **image)
    run = stream(bench)
    run.says("BcastStream", "mpicc cannot compile bcast_stream.c: ", "mpi.h", environ="broken")
    assert run.case("BcastStream", environ="image").result == "skip"
    assert "in an image; this one is compiled" in run.output
