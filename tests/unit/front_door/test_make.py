"""The Makefile and the gate."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from shell import ROOT, program, run


def test_help_names_every_target_that_a_user_types() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.M).group(1).split())
    done = run("make", "--no-print-directory", cwd=ROOT)
    named = set(re.findall(r"^make (\S+)", done.stdout, re.M))
    assert named | {"help", "asked", "system", "osu-py"} == phony


def test_only_the_local_site_needs_packages_of_the_distribution() -> None:
    local = run("make", "-n", "setup", cwd=ROOT).stdout
    other = run("make", "-n", "setup", "SITE=other", cwd=ROOT).stdout
    assert "system-stack.sh" in local
    assert "system-stack.sh" not in other


@pytest.mark.parametrize("apptainer", [True, False], ids=["Apptainer", "no Apptainer"])
@pytest.mark.parametrize("red", ["", "test", "acceptance", "test acceptance", "image"])
def test_gate_runs_all_and_fails_when_any_fails(
    tmp_path: Path, bare: Path, red: str, apptainer: bool
) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / "copy/.ci")
    said = "exit 0" if apptainer else "echo 'apptainer: no Go' >&2; exit 1"
    program(tmp_path / "copy/ci", "apptainer.sh", said)
    (bare / "make").unlink()
    program(bare, "make", f'echo "MAKE[$*]"; case " {red} " in *" $1 "*) exit 2;; esac')
    done = run("bash", tmp_path / "copy/.ci/run", path=bare)
    assert re.findall(r"MAKE\[(.*)\]", done.stdout) == [
        "test PYTEST_ARGS=-m 'not image'",
        *(["image"] if apptainer else []),
        "test PYTEST_ARGS=-m image",
        "acceptance PROFILE=smoke",
    ]
    # Where Apptainer cannot be had that is said, and the tests of images skip.
    assert ("== image: not built: apptainer: no Go" in done.stdout) is not apptainer
    assert (done.returncode == 0) is (red == "" or (red == "image" and not apptainer))
