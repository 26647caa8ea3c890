"""The kernel of emulated nodes: found in its cache, by version and the hash of its inputs."""

import hashlib
import re
import shutil

import pytest
from shell import ROOT, program, run

SCRIPT = ROOT / "lab/vcluster/kernel.sh"


@pytest.fixture
def home(tmp_path):
    """The cache of a checkout that has only the inputs of the kernel."""
    (tmp_path / "lab/vcluster").mkdir(parents=True)
    for name in ("kernel.sh", "uml.config", "kernel-edits.sh"):
        shutil.copy(ROOT / "lab/vcluster" / name, tmp_path / "lab/vcluster")
    made = tmp_path / ".cache/uml-kernel"
    made.mkdir(parents=True)
    return made


def place(home):
    """Where the kernel of this checkout is kept."""
    version = re.search(r"^version=(\S+)$", SCRIPT.read_text(), re.M)[1]
    made_of = b"".join(
        (ROOT / "lab/vcluster" / name).read_bytes() for name in ("uml.config", "kernel-edits.sh")
    )
    return home / f"{version}-{hashlib.sha256(made_of).hexdigest()[:12]}"


def find(home):
    return run(home.parents[1] / "lab/vcluster/kernel.sh", "--no-build", apart=True)


def test_a_kernel_in_the_cache_is_found(home):
    made = place(home)
    made.mkdir()
    kernel = program(made, "linux", "echo 6.1")
    done = find(home)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{kernel}\n", "")


def test_a_kernel_with_other_options_is_not_taken(home):
    made = home / (place(home).name[:-1] + "x")
    made.mkdir()
    program(made, "linux", "echo 6.1")
    done = find(home)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"kernel: none of this version in {home}: type lab/vcluster/kernel.sh\n"


def test_a_kernel_that_does_not_start_is_named(home):
    made = place(home)
    made.mkdir()
    program(made, "linux", "echo broken >&2; exit 1")
    done = find(home)
    assert done.returncode == 1 and done.stdout == ""
    assert f"{made}/linux does not start" in done.stderr


@pytest.mark.parametrize("word", ["--umll", "accounting"])
def test_a_word_that_the_packages_do_not_know_is_refused(word):
    done = run(ROOT / "lab/vcluster/packages.sh", word, apart=True)
    assert done.returncode == 1
    known = "there are --accounting, --uml, --vm and --shared"
    assert done.stderr == f"lab/vcluster/packages.sh: {word}: {known}\n"
