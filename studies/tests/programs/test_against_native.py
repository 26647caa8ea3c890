"""NativeAgainstContainer: the job script of a comparison, and its dry runs."""

import os

import pytest
import shell
from bench import run_reframe

from studies.containers import paired


def test_who_begins_alternates():
    order = [f"{stack}.{number}" for stack, number, _ in paired.launches(3)]
    assert order == [
        "container.0", "native.0", "native.1", "container.1", "container.2", "native.2"
    ]  # fmt: skip


@pytest.fixture
def job(tmp_path):
    """Runs the rounds with a wrapper on PATH, which the native stack must not find."""
    wrappers, native = tmp_path / "wrappers", tmp_path / "native-programs"
    shell.program(wrappers, "in-image")
    shell.program(wrappers, "program", "echo wrapped $UCX_A $UCX_B")
    shell.program(native, "program", "echo native $UCX_A $UCX_B; exit ${FAIL:-0}")

    def run(**variables):
        lines = paired.script(
            2,
            dict.fromkeys((paired.NATIVE, paired.CONTAINER), "program"),
            ["loaded=yes"],
            {"UCX_A": "x y", "UCX_B": ""},
        )
        variables |= {"PATH": f"{wrappers}:{native}:{os.environ['PATH']}", "UCX_A": "a"}
        script = "\n".join([*lines, paired.ROUNDS])
        return shell.run("bash", "-c", script, cwd=tmp_path, UCX_B="b", **variables).returncode

    return run


def test_each_launch_has_its_programs_its_variables_and_its_directory(job, tmp_path):
    assert job() == 0
    said = {path.parent.name: path.read_text() for path in tmp_path.glob("*.*/stdout")}
    assert said == {
        "container.0": "wrapped a b\n",
        "native.0": "native x y\n",
        "native.1": "native x y\n",
        "container.1": "wrapped a b\n",
    }


def test_the_first_launch_that_fails_ends_the_rounds_with_its_code(job, tmp_path):
    assert job(FAIL="7") == 7
    assert not (tmp_path / "native.1").exists()


def compared(bench, **native):
    """Dry-runs a comparison of two stacks; returns the run."""
    bench.partition()
    bench.stack("native", ["osu", "mpi"], **native)
    bench.stack("container", ["osu", "mpi", "container"], image="/x.sif", ucx_version="1.18.1")
    name = "NativeAgainstContainer%transport=posix%probe=osu-latency"
    options = ("--dry-run", "-c", "studies/containers/against_native.py", "-n", name)
    return run_reframe(bench.write(), bench.results, *options)


@pytest.mark.slow
def test_a_comparison_gives_each_stack_the_switches_of_its_own_ucx(bench):
    assert compared(bench, ucx_version="1.13.1").case("NativeAgainst").result == "pass"
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    text = script.read_text()
    assert "export UCX_PROTO_INFO=y" in text  # of the container's UCX
    native = text.split("native() {")[1].split("}\ncontainer()")[0]
    assert {"  unset UCX_PROTO_INFO", "  export UCX_TLS=posix,self"} <= set(native.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("native", "why"),
    [
        ({}, "the stack native does not say which UCX it has (ucx_version)"),
        ({"ucx_version": "1.12.0"}, "the stack native: UCX 1.12.0: the logs of UCX before 1.13"),
    ],
)
def test_a_comparison_with_a_stack_whose_path_cannot_be_proven_is_skipped(bench, native, why):
    run = compared(bench, **native)
    assert run.case("NativeAgainst").result == "skip"
    assert why in run.output
