"""ci/apptainer.sh and ci/image*.sh when they end early: each prints one line with the reason."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import shell
from shell import ROOT, program

TOOLS = """
    awk basename bash cat chmod cp cut dirname env getent git grep head id mkdir mktemp mv nproc
    openssl realpath rm sed sh sha256sum sort stat tail tar tee uname
"""
PIN = dict(
    line.split()
    for line in (ROOT / "ci/apptainer-pin.txt").read_text().splitlines()
    if not line.startswith("#")
)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with the usual tools but without Go and Apptainer."""
    return shell.tools(tmp_path / "bin", TOOLS)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The scripts in a directory with a blank in its name."""
    copy = tmp_path / "a checkout"
    for name in ("ci", "containers", "requirements"):
        shutil.copytree(ROOT / name, copy / name)
    return copy


def run(
    bare: Path, script: Path, *arguments: object, **variables: object
) -> subprocess.CompletedProcess[str]:
    return shell.run("bash", script, *arguments, path=bare, apart=True, **variables)


def cached(checkout: Path, body: str = "echo apptainer version 1.4.5") -> Path:
    """Puts an Apptainer that runs `body` into the cache of the checkout."""
    key = f"{PIN['version']}-{PIN['sha256'][:12]}-{os.uname().machine}"
    program(checkout / ".cache/apptainer" / key / "bin", "apptainer", body)
    return checkout / ".cache/apptainer" / key / "bin/apptainer"


def test_the_one_on_path_is_taken_as_it_is(bare: Path, checkout: Path) -> None:
    cached(checkout)
    program(bare, "apptainer", "exit 0")
    done = run(bare, checkout / "ci/apptainer.sh")
    assert (done.returncode, done.stdout.strip()) == (0, f"{bare}/apptainer")


def test_one_from_the_cache_is_taken_if_it_starts(bare: Path, checkout: Path) -> None:
    made = cached(checkout)
    done = run(bare, checkout / "ci/apptainer.sh")
    assert (done.returncode, done.stdout.strip()) == (0, str(made))
    cached(checkout, "echo libfuse.so is missing >&2; exit 127")
    done = run(bare, checkout / "ci/apptainer.sh")
    assert done.returncode == 1
    assert "does not start" in done.stderr.splitlines()[-1]


def test_what_another_pin_built_is_not_taken(bare: Path, checkout: Path) -> None:
    cached(checkout)
    pin = checkout / "ci/apptainer-pin.txt"
    pin.write_text(pin.read_text().replace(PIN["sha256"], "0" * 64))
    done = run(bare, checkout / "ci/apptainer.sh", "--no-build")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "apptainer: none on PATH and none in .cache/apptainer: type ci/apptainer.sh"
    ]


def debian(bare: Path, checkout: Path, source: bytes) -> None:
    """A Debian with all packages and with Go. Its archive serves `source`."""
    served = checkout / "served"
    served.write_bytes(source)
    helper = f'[ "$(sha256sum "{served}" | cut -d" " -f1)" = "${{4#SHA256:}}" ] || exit 100'
    program(checkout, "apt-helper", f'echo "E: Hash Sum mismatch"; {helper}; cp "{served}" "$3"')
    script = checkout / "ci/apptainer.sh"
    helper_line = f"helper='{checkout}/apt-helper'"
    script.write_text(re.sub(r"(?m)^helper=.*$", helper_line, script.read_text()))
    program(bare, "dpkg-query", "echo install ok installed")
    program(bare, "apt-get", "echo Debian http://127.0.0.1:9/debian/ x")
    own = (checkout / "ci/debian-archive.sh").read_text()
    os_release = checkout / "os-release"
    os_release.write_text("VERSION_CODENAME=x\n")
    (checkout / "ci/debian-archive.sh").write_text(own.replace("/etc/os-release", os_release.name))
    program(bare, "go", 'echo "go $*" >&2; [ "$1" != env ] || echo go1.99')


def test_a_source_that_is_not_the_pinned_one_is_refused(bare: Path, checkout: Path) -> None:
    debian(bare, checkout, b"another")
    done = run(bare, checkout / "ci/apptainer.sh")
    assert done.returncode == 1
    assert "is another than ci/apptainer-pin.txt names" in done.stderr.splitlines()[-1]
    assert "go mod" not in done.stderr
    assert list((checkout / ".cache/apptainer").iterdir()) == []


def test_a_build_that_fails_leaves_nothing_and_says_which_step(bare: Path, checkout: Path) -> None:
    source = checkout / "source.tar.gz"
    folder = f"apptainer-{PIN['version']}"
    (checkout / folder).mkdir()
    assert shell.run("tar", "-czf", source, folder, cwd=checkout).returncode == 0
    pin = checkout / "ci/apptainer-pin.txt"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    pin.write_text(pin.read_text().replace(PIN["sha256"], digest))
    debian(bare, checkout, source.read_bytes())
    (bare / "gzip").symlink_to(str(shutil.which("gzip")))
    done = run(bare, checkout / "ci/apptainer.sh")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "apptainer: configuring failed, see above"
    assert list((checkout / ".cache/apptainer").iterdir()) == []


def test_without_go_it_says_where_one_is(bare: Path, checkout: Path) -> None:
    debian(bare, checkout, b"")
    (bare / "go").unlink()
    done = run(bare, checkout / "ci/apptainer.sh")
    assert done.returncode == 1
    assert "fetching golang-1.23 from Debian's backports" in done.stderr
    assert "no Go to build it with: install golang-go" in done.stderr.splitlines()[-1]


def test_an_older_go_is_told_to_fetch_what_the_source_needs(bare: Path, checkout: Path) -> None:
    debian(bare, checkout, b"another")
    program(bare, "go", 'echo "go1.22.1"')
    program(bare, "apt-get", 'echo "toolchain=$GOTOOLCHAIN" >&2')
    done = run(bare, checkout / "ci/apptainer.sh")
    assert f"toolchain=go{PIN['go']}+auto" in done.stderr
    assert "type apt-get update" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        ("image-test.sh", ["none.sif"], "none.sif does not exist: type make image"),
        ("image-sign.sh", ["sign", "none.sif"], "none.sif does not exist: type make image"),
        ("image-sign.sh", ["seal", "ci/image.sh"], "sign, verify or digest?"),
        ("image-sign.sh", ["sign", "ci/image.sh"], "IMAGE_KEY names no private key"),
        ("image-sign.sh", ["verify", "ci/image.sh"], "IMAGE_PUB names no public key"),
    ],
)
def test_wrong_usage_is_one_line(
    bare: Path, checkout: Path, script: str, arguments: list[str], said: str
) -> None:
    cached(checkout)
    done = run(bare, checkout / "ci" / script, *arguments)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("IMAGE_DEF", "none.def", "IMAGE_DEF=none.def does not exist; there are: containers/"),
        ("IMAGE_DEF", "containers/cuda.def", "containers/cuda.def needs a base; ci/image-base.sh"),
        ("IMAGE_PYTHON", "bookworm", "IMAGE_PYTHON=bookworm is no version such as 3.12"),
        ("IMAGE_CA", "requirements/run.lock", "requirements/run.lock holds no certificate in PEM"),
        ("IMAGE_CA", "none.crt", "IMAGE_CA=none.crt holds no certificate in PEM"),
    ],
)
def test_a_setting_of_an_image_that_cannot_be_is_named(
    bare: Path, checkout: Path, name: str, value: str, said: str
) -> None:
    cached(checkout)
    done = run(bare, checkout / "ci/image.sh", **{name: value})
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("sources", "goes_on"), [("none", False), (".", True)])
def test_what_cannot_be_packed_is_left_out_but_a_wrong_folder_ends_the_build(
    bare: Path, checkout: Path, sources: str, goes_on: bool
) -> None:
    cached(checkout)
    (bare / "git").unlink()
    program(bare, "git", "true")
    (checkout / ".cache/osu-py").mkdir()
    for name in ("src/assay/catalogue.yaml", "src/assay/node/capacity.py", "reframe/cases.txt"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    pip = f'[ "$1" != -m ] || exit 1\nexec {sys.executable} "$@"'
    program(checkout / ".venv/bin", "python", pip)
    nowhere = dict.fromkeys(("https_proxy", "http_proxy"), "http://127.0.0.1:9")
    done = run(bare, checkout / "ci/image.sh", ASSAY_SOURCES=checkout / sources, **nowhere)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    if goes_on:
        assert "without hpl these tests do not run" in done.stdout
        assert "image: the image lacks the programs that were left out" in done.stdout
        assert last.startswith("image: pip could not fetch the wheels")
    else:
        assert "none is neither a folder nor an address" in done.stdout
        assert last == "image: no sources; the line above says why"


LABELS = """\
case "$1 $2" in
"inspect --labels") echo "assay.lock.spack: $(sha256sum spack.lock | cut -d' ' -f1)" ;;
*) echo apptainer version 1.4.5 ;;
esac"""


@pytest.mark.parametrize("known", [True, False])
def test_an_image_with_the_lock_of_any_site_is_known(
    bare: Path, checkout: Path, known: bool
) -> None:
    (checkout / "spack.lock").write_text("{}")
    # More lines than a pipe holds: the first that fits must not end the program that lists them.
    for number in range(400):
        folder = checkout / f"site-config/{number:0150}/spack/env"
        folder.mkdir(parents=True)
        (folder / "spack.lock").write_text("{}" if number == 0 else str(number))
    body = LABELS if known else LABELS.replace("spack.lock", "requirements/run.lock")
    cached(checkout, body)
    (checkout / "one.sif").touch()
    said = run(bare, checkout / "ci/image-test.sh", "one.sif").stderr.splitlines()[-1]
    assert ("which no lock here has" in said) is not known
    assert ("label assay.lock.requirements is missing" in said) is known
