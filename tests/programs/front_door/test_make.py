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
    assert named | {"help", "asked", "system"} == phony


def test_only_the_local_site_needs_packages_of_the_distribution() -> None:
    local = run("make", "-n", "setup", cwd=ROOT).stdout
    other = run("make", "-n", "setup", "SITE=other", cwd=ROOT).stdout
    assert "system-stack.sh" in local
    assert "system-stack.sh" not in other


STEPS = ["", "--release trixie smoke", "--release forky smoke"]


@pytest.mark.parametrize("red", [None, *STEPS])
def test_gate_runs_all_and_fails_when_any_fails(
    tmp_path: Path, bare: Path, red: str | None
) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / "copy/.ci")
    verdict = "" if red is None else f'[ "$*" != "{red}" ] || exit 1'
    program(tmp_path / "copy/ci", "fresh.py", f'echo "FRESH[$*]"; {verdict}')
    program(bare, "id", "echo 0")
    program(bare, "apt-get")
    done = run("bash", tmp_path / "copy/.ci/run", path=bare)
    said, _, end = done.stdout.partition("== failed after")
    assert re.findall(r"FRESH\[(.*)\]", said) == STEPS
    assert (done.returncode == 0) is (red is None)
    # What failed is said again at the end.
    assert re.findall(r"FRESH\[(.*)\]", end) == ([] if red is None else [red])


def test_gate_is_red_where_it_can_make_no_fresh_machine(tmp_path: Path, bare: Path) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / "copy/.ci")
    program(bare, "id", "echo 1000")
    done = run("bash", tmp_path / "copy/.ci/run", path=bare)
    assert done.returncode == 1
    assert "fresh machines are made as root" in done.stdout


def test_the_emulated_cluster_gets_what_its_proof_starts() -> None:
    done = run("make", "-n", "vcluster-up", cwd=ROOT)
    for script in ("ci/system-stack.sh", "ci/setup-venv.sh", "lab/vcluster/packages.sh"):
        assert script in done.stdout
    assert "uml" not in done.stdout
    packages = (ROOT / "lab/vcluster/packages.sh").read_text()
    assert re.search(r"^ +libpmix-dev ", packages, re.M), "srun --mpi=pmix opens its libpmix.so"


def test_nodes_with_a_kernel_of_their_own_get_the_kernel_first() -> None:
    done = run("make", "-n", "vcluster-up", "MACHINES=uml", cwd=ROOT)
    order = (
        "lab/vcluster/packages.sh --uml",
        "lab/vcluster/kernel.sh",
        'vcluster up ${MACHINES:+--machines "$MACHINES"}',
    )
    places = [done.stdout.find(words) for words in order]
    assert -1 not in places and places == sorted(places), done.stdout


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("SITE=vcluster", "CALIBRATE_ARGS", "-- --system vcluster:inter-node -n "),
        ("SITE=local", "CALIBRATE_ARGS", ""),
        ("SITE=local", "DISTRO", "bookworm"),
        ("DISTRO=forky", "MACHINE", "smoke"),
        ("SITE=vgpu", "PROFILE", "smoke"),
        ("PYTHON=python3.12", "SITE", "local"),
    ],
)
def test_recipes_find_the_defaults_in_their_environment(
    tmp_path: Path, given: str, name: str, value: str
) -> None:
    """A variable that is exported before its default is set has none."""
    show = tmp_path / "Makefile"
    show.write_text(f'include {ROOT}/Makefile\nshow:\n\t@echo "$${name}"\n')
    shown = run("make", "-s", "-f", show, "show", given, cwd=ROOT).stdout.strip()
    assert shown.startswith(value)
    assert bool(shown) is bool(value)
