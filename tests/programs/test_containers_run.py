"""containers/run.sh, which `apptainer run` starts, run outside of any image."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import shell
from shell import ROOT


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with the layout of an image. Its acceptance script prints how it was called."""
    suite = tmp_path / "suite"
    for name in ("containers", "site-config/local", "reframe", ".venv/bin", ".cache/osu-py"):
        (suite / name).mkdir(parents=True)
    shutil.copy(ROOT / "containers/run.sh", suite / "containers")
    (suite / "site-config/local/reframe.py").write_text("# a site\n")
    (suite / "reframe/test.py").write_text("# a test\n")
    (suite / ".venv/bin/python").write_text("")
    (suite / ".cache/osu-py/osu_latency.py").write_text("")
    (suite / ".cache/large").write_text("")
    shell.program(suite / "containers", "kit.sh", 'mkdir "$1/.venv"; exit ${KIT:-0}')
    shell.program(suite / "ci", "acceptance.sh", 'echo "ARGS[$*]"; env; exit ${WANT:-0}')
    return suite


def run(
    suite: Path, *arguments: object, cwd: Path | None = None, **variables: object
) -> subprocess.CompletedProcess[str]:
    script = suite / "containers/run.sh"
    return shell.run("bash", script, *arguments, cwd=cwd or suite.parent, **variables)


def environment(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_acceptance_leaves_results_where_it_was_started(suite: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    done = run(suite, "acceptance", "-n", "Osu", cwd=here, PROFILE="smoke")
    assert done.returncode == 0, done.stdout
    assert "ARGS[-n Osu]" in done.stdout
    seen = environment(done)
    assert seen["ASSAY_RESULTS"] == f"{here}/results"
    assert (seen["SITE"], seen["ASSAY_STACK"], seen["PROFILE"]) == ("local", "system", "smoke")
    # The directory of the suite is a different one, and read-only.
    done = run(suite, "acceptance", cwd=here, ASSAY_RESULTS="of/today")
    assert "cannot be written" in done.stdout
    (here / "of").mkdir()
    done = run(suite, "acceptance", cwd=here, ASSAY_RESULTS="of/today")
    assert environment(done)["ASSAY_RESULTS"] == f"{here}/of/today"


def test_its_exit_code_is_that_of_the_suite(suite: Path) -> None:
    assert run(suite, "acceptance", WANT=3).returncode == 3


def test_a_site_for_any_machine_is_taken_where_there_is_one(suite: Path) -> None:
    (suite / "site-config/any").mkdir()
    (suite / "site-config/any/reframe.py").write_text("")
    assert environment(run(suite, "acceptance"))["SITE"] == "any"
    assert environment(run(suite, "acceptance", SITE="local"))["SITE"] == "local"


#: What the machine says outside of the container, and would mislead inside.
OUTSIDE = ("SLURM_JOB_ID", "PMI_RANK", "PMIX_RANK", "ASSAY_IMAGE", "ASSAY_PROGRAMS")


def test_scheduler_and_mpi_outside_are_unknown_inside(suite: Path) -> None:
    outside = dict.fromkeys(OUTSIDE, "1")
    done = run(suite, "acceptance", **outside, PYTHONPATH="/elsewhere", UCX_TLS="tcp", OMPI_MCA_x=1)
    seen = environment(done)
    assert not {*outside, "PYTHONPATH"} & {*seen}
    # A setting that the user chose for the measurement is kept.
    assert (seen["UCX_TLS"], seen["OMPI_MCA_x"]) == ("tcp", "1")


def test_results_that_cannot_be_written_are_one_line(suite: Path) -> None:
    done = run(suite, "acceptance", ASSAY_RESULTS="/nonexistent/results")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "assay: /nonexistent/results cannot be written: go to a directory that can, "
        "or bind one by --bind"
    ]


def test_export_writes_tests_a_site_and_what_runs_them(suite: Path, tmp_path: Path) -> None:
    done = run(suite, "export", "out", APPTAINER_CONTAINER="/images/assay.sif")
    assert done.returncode == 0, done.stdout
    out = tmp_path / "out"
    assert (out / "reframe/test.py").read_text() == "# a test\n"
    assert (out / "site-config/mysite/reframe.py").read_text() == "# a site\n"
    assert (out / ".venv").is_dir()
    # `make setup` then fetches nothing.
    assert [path.name for path in (out / ".cache").iterdir()] == ["osu-py"]
    assert f"cd {out}\n" in done.stdout
    assert "ASSAY_IMAGE=/images/assay.sif" in done.stdout


def test_an_export_without_its_python_is_no_export(suite: Path) -> None:
    done = run(suite, "export", "out", KIT=1)
    assert done.returncode == 1
    assert done.stdout.endswith("out is not complete: remove it, and try again\n")


def test_export_keeps_its_hands_off_what_is_there(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert run(suite, "export", "out").returncode == 0, "an empty directory is fine"
    kept = tmp_path / "out/site-config/mysite/reframe.py"
    kept.write_text("# mine\n")
    done = run(suite, "export", "out")
    assert done.returncode == 1
    assert done.stdout == "assay: out is there and not empty: name another directory\n"
    assert kept.read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hpcc"], "assay: no command 'hpcc'"),
        (["export"], "assay: export needs one directory"),
        (["export", "a", "b"], "assay: export needs one directory"),
    ],
)
def test_wrong_usage_is_one_line(suite: Path, arguments: list[str], said: str) -> None:
    done = run(suite, *arguments)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.startswith(said)


def test_without_a_command_it_says_what_there_is(suite: Path) -> None:
    done = run(suite)
    assert done.returncode == 0
    assert "acceptance [" in done.stdout
    assert "export DIR" in done.stdout
    assert "set -euo" not in done.stdout
