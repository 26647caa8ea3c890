"""ci/image-lint.py: the definitions of this repository pass, and each rule can object."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import shell
from shell import ROOT

from assay import catalogue

lint = shell.module("ci/image-lint.py")
DEFINITIONS = sorted((ROOT / "containers").glob("*.def"))

SOUND = """\
Bootstrap: {{ bootstrap }}
From: {{ base }}

%arguments
  bootstrap=docker

%post
  set -eu
  echo built

%labels
  title sound

%test
  set -eu
  command -v mpirun >/dev/null

%help
  A sound definition.

%apprun hpcc
  exec hpcc "$@"

%apptest hpcc
  set -eu
  command -v hpcc
"""


def objections(text: str) -> list[str]:
    """Objections of the rules and of shellcheck, as "line: objection"."""
    return [f"{line}: {what}" for line, what in [*lint.rules(text), *lint.shells(text)]]


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shellcheck of .venv, as in make lint."""
    own = Path(sys.executable).parent
    if not shutil.which("shellcheck", path=str(own)):
        pytest.skip("needs shellcheck in .venv: make lint")
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")


@pytest.mark.parametrize("file", DEFINITIONS, ids=lambda file: file.name)
def test_definitions_of_this_repository_are_clean(file: Path) -> None:
    assert objections(file.read_text()) == []


def test_sound_is_sound() -> None:
    assert objections(SOUND) == []


def after(section: str, line: str) -> Callable[[str], str]:
    """Adds a line after the first lines of a section."""
    return lambda text: text.replace(
        f"%{section}\n  set -eu\n", f"%{section}\n  set -eu\n  {line}\n"
    )


def without(section: str) -> Callable[[str], str]:
    return lambda text: re.sub(rf"%{section}\n(?:  .*\n)+", "", text)


SHA = "a" * 40

FAULTS = {
    "several names": (after("test", "command -v hpcc mpirun"), r"^16: .*one name at a time"),
    "cleanenv": (after("test", "apptainer exec --cleanenv x.sif hpcc"), r"N worlds of one"),
    "cleanenv, short": (after("test", "apptainer exec -e x.sif hpcc"), r"N worlds of one"),
    "unverified TLS": (after("post", "wget --no-check-certificate"), r"not verified"),
    "curl": (after("post", 'curl -LO "$url"'), r"`curl -`: nothing in this section verifies"),
    "wget": (after("post", 'wget "$url"'), r"nothing in this section verifies"),
    "git clone": (after("post", 'git clone --depth 1 "$url"'), r"nothing in this section verifies"),
    "pip": (
        after("post", "python3 -m pip install reframe-hpc"),
        r"nothing in this section verifies",
    ),
    "stack in %post": (after("post", "version=$(ompi_info --version)"), r"may need libcuda"),
    "host name": (after("post", "echo https://example.org/x"), r"names a host"),
    "no set -eu": (lambda t: t.replace("%post\n  set -eu\n", "%post\n"), r"%post does not begin"),
    "app, no set -eu": (
        lambda t: t.replace("%apptest hpcc\n  set -eu\n", "%apptest hpcc\n"),
        r"%apptest does not begin",
    ),
    "From: a tag": (lambda t: t.replace("{{ base }}", "debian:12"), r"^1: From: is neither"),
    "no test": (without("test"), r"no %test"),
    "no help": (without("help"), r"no %help"),
    "no labels": (without("labels"), r"no %labels"),
    "app without test": (lambda t: t.replace("%apptest hpcc", "%apptest other"), r"no %apptest"),
    "shell syntax": (after("post", "if true; then"), r"sh: "),
    "shellcheck": (after("post", "cd $directory"), r"shellcheck: .*SC2086"),
    "no header": (lambda t: t.replace("Bootstrap", "Form"), r"^1: no header"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_rule_objects(fault: str) -> None:
    change, said = FAULTS[fault]
    broken = change(SOUND)
    assert broken != SOUND
    found = objections(broken)
    assert any(re.search(said, each) for each in found), found


@pytest.mark.parametrize(
    "line",
    [
        'curl -LO "$url" && echo "$sum  x.tar.gz" | sha256sum -c',
        f'git clone "$url" x && [ "$(git -C x rev-parse HEAD)" = {SHA} ]',
        "python3 -m pip install --no-index --find-links /wheels reframe-hpc",
        "apt-get install -y curl wget",
        "echo built # not: command -v a b",
        "command -v hpcc >/dev/null || exit 1",
        "command -v hpcc && command -v mpirun",
        "apt-get install -y openmpi-bin ucx-utils",
    ],
)
def test_what_is_verified_or_harmless_passes(line: str) -> None:
    assert objections(after("post", line)(SOUND)) == []


def test_an_objection_names_the_line() -> None:
    text = after("test", "command -v hpcc mpirun")(SOUND)
    line = text.splitlines().index("  command -v hpcc mpirun") + 1
    assert [where for where, what in lint.rules(text) if "one name" in what] == [line]


def run(*files: Path) -> subprocess.CompletedProcess[str]:
    return shell.run(sys.executable, ROOT / "ci/image-lint.py", *files, apart=True)


def test_the_command_is_red_when_any_file_is(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.def", tmp_path / "bad.def"
    good.write_text(SOUND)
    bad.write_text(without("test")(SOUND))
    assert run(good).returncode == 0
    done = run(good, bad)
    assert done.returncode == 1
    assert f"{bad}:1: the last stage has no %test" in done.stdout
    assert str(good) not in done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file or directory"), (b"\xff\xfe", "not a text in UTF-8")],
    ids=["not there", "no text"],
)
def test_a_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "image.def"
    if content is not None:
        file.write_bytes(content)
    done = run(file)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"image-lint: {file}: {said}"]


def test_the_image_of_debian_has_the_packages_of_the_catalogue():
    definition = (ROOT / "containers/debian.def").read_text()
    (command,) = re.findall(r"^  (awk .*) \|\n    xargs sh /inputs/install.sh ", definition, re.M)
    found = shell.run("bash", "-c", command.replace("/opt/assay", str(ROOT)))
    known = {program.debian for program in catalogue.PROGRAMS.values() if program.debian}
    # iozone3 is in non-free, so the builder of the image decides about it.
    assert {*found.stdout.split()} == known - {"iozone3"} != set()
