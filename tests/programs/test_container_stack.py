"""The stack of an image: its programs, and the wrappers that pass everything on."""

import dataclasses
import os
from pathlib import Path

import pytest

pytest.importorskip("reframe")

import shell
from bench import run_reframe
from reframe.core.exceptions import ConfigError

from assay.checks import paired
from assay.evidence.accelerator import ACCELERATORS
from assay.sites import container, detect

#: Prints how it was started, in place of `apptainer`.
ECHO = """
for argument in "$@"; do printf '<%s>' "$argument"; done
echo " in $PWD with $UCX_TLS"
exit 3
"""


@pytest.fixture
def image(tmp_path):
    return container.Image(
        tmp_path / "x y.sif",
        str(shell.program(tmp_path, "apptainer", ECHO)),
        "ab" * 32,
        "assay.lock.spack 12ef",
        frozenset(("sh", "ls", "mpirun", "ucx_info", "hpcc", "osu_latency", "osu_bw", "NPmpi")),
        {
            ("mpirun", "--version"): "mpirun (Open MPI) 5.0.8\n",
            ("ucx_info", "-v"): "# Library version: 1.18.1\n",
            ("ucx_info", "-d"): "#      Transport: posix\n#      Transport: tcp\n",
            ("osu_latency", "--version"): "OMB v7.5\n",
        },
    )


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    return tmp_path / "site-config" / "x" / "reframe.py"


def test_features_versions_and_provenance_are_the_images(site, image):
    stack = container.stack(site, image)
    assert stack["name"] == "container"
    assert set(stack["features"]) == {"container", "mpi", "ucx", "hpcc", "osu", "netpipe"}
    extras = stack["extras"]
    assert extras["openmpi_version"] == "5.0.8"
    assert extras["ucx_version"] == "1.18.1"
    assert extras["osu_version"] == "7.5"
    assert (
        extras["provenance"]
        == f"image x y.sif sha256 {image.sha256}, assay.lock.spack 12ef; unverified"
    )
    assert detect.transports(image.said["ucx_info", "-d"]) == ["posix", "tcp"]


def test_programs_built_with_cuda_have_words_of_their_own(site, image):
    linked = {container._LINKED: "\tlibcudart.so.12 => not found\n"}
    ucx = {("ucx_info", "-d"): "#      Transport: cuda_copy\n"}
    stack = container.stack(site, dataclasses.replace(image, said={**image.said, **linked, **ucx}))
    assert {"osu-cuda", "ucx-cuda"} <= set(stack["features"])
    assert "osu" not in stack["features"]


def test_ranks_in_user_namespaces_of_their_own_copy_twice(site, image):
    question = ("readlink", "/proc/self/ns/user")
    apart = dataclasses.replace(image, said={**image.said, question: "user:[1]\n"})
    alike = {**image.said, question: f"{Path('/proc/self/ns/user').readlink()}\n"}
    together = dataclasses.replace(image, said=alike)
    name = "OMPI_MCA_btl_vader_single_copy_mechanism"
    for contained, of, expected in ((False, apart, "none"), (False, together, None),
                                    (True, apart, None)):  # fmt: skip
        stack = container.stack(site, of, contained)
        assert dict(stack["env_vars"]).get(name) == expected
        assert stack["extras"].get("user_namespaces", False) is (expected is not None)


def folder(stack):
    path = dict(stack["env_vars"])["PATH"]
    assert path.endswith(":$PATH")
    return Path(path.partition(":")[0].strip("'"))


def test_only_programs_of_the_suite_have_a_wrapper_and_the_launcher_where_it_is_contained(
    site, image
):
    hybrid, contained = (container.stack(site, image, contained=c) for c in (False, True))
    programs = {"ucx_info", "hpcc", "osu_latency", "osu_bw", "NPmpi", "in-image"}
    assert {file.name for file in folder(hybrid).iterdir()} == programs
    assert {file.name for file in folder(contained).iterdir()} == programs | {"mpirun"}
    assert contained["extras"]["contained"] is True
    assert "contained" not in hybrid["extras"]


def test_a_wrapper_passes_on_arguments_directory_environment_and_exit_code(site, image, tmp_path):
    where = tmp_path / "a place"
    where.mkdir()
    wrapper = folder(container.stack(site, image)) / "osu_bw"
    done = shell.run(wrapper, "-m", "1 2", "", cwd=where, UCX_TLS="tcp")
    nv = "<--nv>" if Path("/dev/nvidiactl").exists() else ""
    assert done.stdout == (
        f"<exec>{nv}<--bind><{where}><{image.path}><osu_bw><-m><1 2><> in {where} with tcp\n"
    )
    assert done.returncode == 3


@pytest.mark.parametrize("there", [[], ["cuda"], ["rocm"], ["cuda", "rocm"]])
def test_a_wrapper_passes_on_the_driver_of_each_vendor_of_gpus(
    site, image, tmp_path, monkeypatch, there
):
    lines = container._GPUS
    for word, gpu in ACCELERATORS.items():
        assert gpu.device in lines
        lines = lines.replace(gpu.device, str(tmp_path / word))
        if word in there:
            (tmp_path / word).touch()
    monkeypatch.setattr(container, "_GPUS", lines)
    program = folder(container.stack(site, image)) / "hpcc"
    done = shell.run(program)
    passed = "".join(f"<{ACCELERATORS[word].container}>" for word in there)
    assert done.stdout.startswith(f"<exec>{passed}<--bind>")


def test_a_second_load_leaves_wrappers_alone_and_another_image_has_its_own(site, image):
    first = folder(container.stack(site, image))
    before = {file: file.stat().st_mtime_ns for file in first.iterdir()}
    assert folder(container.stack(site, image)) == first
    assert {file: file.stat().st_mtime_ns for file in first.iterdir()} == before
    other = container.Image(**{**image.__dict__, "sha256": "cd" * 32})
    assert folder(container.stack(site, other)) != first


def test_without_apptainer_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apptainer is not on PATH"):
        container.apptainer(tmp_path)


# --- the job script of a comparison ---------------------------------------------------------------


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
    options = ("--dry-run", "-c", "reframe/network/equivalence.py", "-n", name)
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
