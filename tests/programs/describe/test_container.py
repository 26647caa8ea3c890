"""The stack of an image: its programs, and the wrappers that pass everything on."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("reframe")

import shell
from reframe.core.exceptions import ConfigError

from assay.describe import container
from assay.gpu.accelerator import ACCELERATORS
from assay.prove.transports import opened_transports

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
    stack = container.container_stack(site, image)
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
    assert opened_transports(image.said["ucx_info", "-d"]) == ["posix", "tcp"]


def test_programs_built_with_cuda_have_words_of_their_own(site, image):
    linked = {container._LINKED: "\tlibcudart.so.12 => not found\n"}
    ucx = {("ucx_info", "-d"): "#      Transport: cuda_copy\n"}
    stack = container.container_stack(
        site, dataclasses.replace(image, said={**image.said, **linked, **ucx})
    )
    assert {"osu-cuda", "ucx-cuda"} <= set(stack["features"])
    assert "osu" not in stack["features"]


def test_ranks_in_user_namespaces_of_their_own_copy_twice(site, image):
    question = ("readlink", "/proc/self/ns/user")
    apart = dataclasses.replace(image, said={**image.said, question: "user:[1]\n"})
    alike = {**image.said, question: f"{Path('/proc/self/ns/user').readlink()}\n"}
    together = dataclasses.replace(image, said=alike)
    name = "OMPI_MCA_btl_vader_single_copy_mechanism"
    for of, expected in ((apart, "none"), (together, None)):
        stack = container.container_stack(site, of)
        assert dict(stack["env_vars"]).get(name) == expected
        assert stack["extras"].get("user_namespaces", False) is (expected is not None)


def folder(stack):
    path = dict(stack["env_vars"])["PATH"]
    assert path.endswith(":$PATH")
    return Path(path.partition(":")[0].strip("'"))


def test_only_programs_of_the_suite_have_a_wrapper_and_no_launcher(site, image):
    programs = {"ucx_info", "hpcc", "osu_latency", "osu_bw", "NPmpi", "in-image"}
    assert {
        file.name for file in folder(container.container_stack(site, image)).iterdir()
    } == programs


def test_a_wrapper_passes_on_arguments_directory_environment_and_exit_code(site, image, tmp_path):
    where = tmp_path / "a place"
    where.mkdir()
    wrapper = folder(container.container_stack(site, image)) / "osu_bw"
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
    for word in there:
        (tmp_path / word).touch()
    here = {
        word: msgspec.structs.replace(gpu, device=str(tmp_path / word))
        for word, gpu in ACCELERATORS.items()
    }
    monkeypatch.setattr(container, "ACCELERATORS", here)
    program = folder(container.container_stack(site, image)) / "hpcc"
    done = shell.run(program)
    passed = "".join(f"<{ACCELERATORS[word].container}>" for word in there)
    assert done.stdout.startswith(f"<exec>{passed}<--bind>")


def test_a_second_load_leaves_wrappers_alone_and_another_image_has_its_own(site, image):
    first = folder(container.container_stack(site, image))
    before = {file: file.stat().st_mtime_ns for file in first.iterdir()}
    assert folder(container.container_stack(site, image)) == first
    assert {file: file.stat().st_mtime_ns for file in first.iterdir()} == before
    other = container.Image(**{**image.__dict__, "sha256": "cd" * 32})
    assert folder(container.container_stack(site, other)) != first


def test_without_apptainer_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apptainer is not on PATH"):
        container.apptainer(tmp_path)
