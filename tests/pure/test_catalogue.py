"""The catalogue of programs: what it refuses, and that shell and Python read the same content."""

import re
from functools import cache, partial
from pathlib import Path

import pytest
import yaml
from reframe.core.exceptions import ConfigError
from shell import ROOT

from assay import catalogue, sites
from assay.describe import detect
from assay.gpu.accelerator import ACCELERATORS


def test_every_package_that_the_stack_of_spack_builds_is_a_program():
    pinned = yaml.safe_load((ROOT / "site-config/common/spack/packages.yaml").read_text())
    known = {program.spack.split("~")[0].split("+")[0] for program in catalogue.PROGRAMS.values()}
    libraries = {"mpi", "blas", "lapack"}
    assert set(pinned["packages"]) - libraries <= known


def test_the_shell_script_can_read_the_file_line_by_line():
    """ci/system-stack.sh reads executables and debian by awk."""
    text = catalogue.FILE.read_text()
    for program in catalogue.PROGRAMS.values():
        if program.executables:
            assert f"  executables: [{', '.join(program.executables)}]\n" in text
        if program.debian:
            assert f"  debian: {program.debian}\n" in text


@cache
def asked_for():
    """The words that tests select stacks by: `+word` in their text, and programs between GPUs."""
    texts = [path.read_text() for path in (ROOT / "reframe").glob("*/*.py")]
    texts += [path.read_text() for path in (ROOT / "studies").glob("*/*.py")]
    texts += [path.read_text() for path in (ROOT / "src/assay").glob("*/*.py")]
    words = {word for text in texts for word in re.findall(r"\+([a-z][a-z-]+)", text)}
    built = {word for text in texts for word in re.findall(r'built = "(\w+)"', text)}
    return words | {f"{word}-{gpu}" for word in built for gpu in ACCELERATORS}


@pytest.mark.parametrize("word", catalogue.PROGRAMS)
def test_every_program_has_a_test_or_a_reason_and_not_both(word):
    """A program that is built, and that nothing runs, promises more than the suite does."""
    program = catalogue.PROGRAMS[word]
    assert (word in asked_for()) != bool(program.untested), program.untested or (
        f"no test has +{word}: write one, or say why not (untested) in {catalogue.FILE.name}"
    )


def test_which_programs_tests_ask_for():
    assert {"hpl", "osu", "osu-cuda", "ucx-rocm", "iozone", "ib-perftest"} <= asked_for()
    assert "ucx-stats" not in asked_for()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stream: a program", "stream: 'a program': expected a mapping, .*has a descr"),
        ("stream: {executables: [x]}", "stream: `descr` is missing"),
        ("stream: {descr: x}", "stream: executables: is missing"),
        (
            "stream: {descr: x, executables: [x], debain: y}",
            "stream/debain: unknown key; did you",
        ),
        ("stream: {descr: x, family: '('}", "stream: family: is not a regular expression"),
        ("stream: {descr: x, variant_of: y}", "stream: variant_of: is not a word of this file"),
        (
            "stream: {descr: x, executables: [x], version: {extra: y, command: [x], pattern: z}}",
            "stream/version: pattern: must have one group",
        ),
        (
            "stream: {descr: x, executables: [x], version: {extra: y}}",
            "stream/version: `command` is missing",
        ),
        ("[a]", r"\(top level\): .*expected a mapping"),
        ("a: [", ".*line 1 is not valid YAML"),
    ],
)
def test_what_is_not_valid_is_refused_by_file_word_and_key(tmp_path, text, said):
    path = tmp_path / "catalogue.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        catalogue.load_catalogue(path)
    assert re.match(f"{path}: {said}", str(refused.value))


@pytest.mark.parametrize(
    ("word", "extras", "name"),
    [
        ("mpi", {}, "mpirun"),
        ("ucx-cuda", {}, "ucx_info"),
        ("osu-cuda", {}, "osu_latency"),
        ("netpipe", {}, "NPmpi"),
        ("netpipe", {"netpipe_command": "NPopenmpi"}, "NPopenmpi"),
        ("hpl-gpu", {"hpl_gpu_command": "/opt/hpl.sh --affinity 0"}, "/opt/hpl.sh"),
        ("osu-py", {"osu_py_command": "in-image /opt/python {benchmark}.py"}, "/opt/python"),
        ("btio", {"btio_built": {"classes": ["W", "A"], "subtypes": ["epio"]}}, "bt.W.x.ep_io"),
        ("container", {}, "sh"),
    ],
)
def test_the_name_that_shows_whether_a_stack_has_a_program(word, extras, name):
    assert catalogue.executable(word, extras) == name


def test_every_program_has_such_a_name():
    extras = {"btio_built": {"classes": ["S"], "subtypes": ["full"]}}
    for word, program in catalogue.PROGRAMS.items():
        given = {program.command_extra: "start"} if program.command_extra else {}
        assert catalogue.executable(word, {**extras, **given})


def test_a_stack_that_does_not_say_how_its_program_starts_is_refused():
    with pytest.raises(ConfigError, match="a stack with hpl-gpu needs the extra hpl_gpu_command"):
        catalogue.executable("hpl-gpu", {})
    with pytest.raises(ConfigError, match=r"btio_built: \{classes: "):
        catalogue.executable("btio", {"btio_built": {"classes": []}})


def test_programs_are_found_by_their_preferred_name_and_variants_never():
    there = {"NPmpi", "NPopenmpi", "osu_latency", "sh", "stream_c.exe", "bt.S.x.mpi_io_full"}
    assert detect.programs(there.__contains__) == {
        "osu": "osu_latency",
        "netpipe": "NPmpi",
        "stream": "stream_c.exe",
    }


@pytest.mark.parametrize("name", sorted(catalogue.VERSIONS))
def test_a_version_that_is_a_number_is_refused(name):
    """YAML and Python read 1.20 as 1.2, which is another version."""
    words = {"features": {"osu": ""}, "extras": dict.fromkeys(catalogue.VERSIONS, "")}
    stack = {"name": "s", "features": ["osu"], "extras": {name: "1.20"}}
    check = partial(sites._check_stack, Path("here.py"), stack, [{"environs": ["s"]}], words)
    check()
    stack["extras"][name] = 1.20
    with pytest.raises(ConfigError, match=f"extras: {name} is 1.2, .*: write the version in quo"):
        check()


HELP = "Usage: osu_bw [options]\n  -W, --window-size SIZE  set number of messages\n"


@pytest.mark.parametrize(
    ("printed", "left_out"),
    [
        ({"osu_bw": HELP, "mdtest": "Synopsis mdtest\n  -G=-1    Offset for the data\n"}, []),
        ({"osu_bw": "Usage: osu_bw [options]\n  -x ITER\n", "mdtest": ""}, ["osu"]),
        ({"osu_bw": HELP, "mdtest": "Synopsis mdtest\n  -N=0     stride\n"}, ["ior"]),
        ({"osu_bw": "MPI_Init failed", "mdtest": ""}, []),
    ],
)
def test_a_program_without_an_option_that_the_suite_needs_is_too_old(
    printed: dict[str, str], left_out: list[str]
) -> None:
    said = lambda name, *_: printed.get(name, "")  # noqa: E731
    there = {"osu_latency", "ior", "mpirun"}
    features, extras = detect.describe_programs(there.__contains__, said)
    assert [word for word in ("osu", "ior") if word not in features] == left_out
    assert [*extras.get("too_old", {})] == left_out


def test_what_is_needed_is_known_by_the_name_of_each_program_of_a_family() -> None:
    assert catalogue.needed("osu_alltoall") == "OSU 5.4.2 or newer"
    assert catalogue.needed("mdtest") == "IOR 4.0 or newer"
    assert catalogue.needed("xhpl") == ""
