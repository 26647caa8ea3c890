"""Bad input gives one line that names file, key and remedy; no traceback, and no exit code 0."""

import os
import re
import sys
from pathlib import Path

import pytest
import shell
from bench import ROOT, run_reframe

pytestmark = pytest.mark.slow


def assay(*words):
    return shell.run(sys.executable, "-m", "assay", *words, cwd=ROOT, apart=True)


def complaint(output: str) -> str:
    """The only error line of ReFrame."""
    assert "Traceback" not in output
    lines = [line for line in output.splitlines() if "ERROR" in line]
    assert len(lines) == 1, output
    return lines[0]


def refused(bench, *arguments, **variables):
    run = bench.run(*arguments, **variables)
    assert run.returncode != 0
    assert not run.cases
    return complaint(run.output)


def test_an_unknown_feature_word(bench):
    line = refused(bench.ready(features=["intra-node", "infinband"]))
    assert "site-config/bench/reframe.py" in line
    assert "partition 'here': features: unknown word 'infinband'" in line
    assert "did you mean 'infiniband'?" in line


def test_an_unknown_limit_of_a_node(bench):
    line = refused(bench.ready(extras={"health": {"counters_max": {"symbol_errors": 3}}}))
    assert "site-config/bench/reframe.py: partition 'here': extras: health: counters_max/" in line
    assert "'symbol_errors' is not known; did you mean 'symbol_error'?" in line


def test_an_unknown_extra_of_a_stack(bench):
    bench.partition()
    bench.stack("any", ["mpi"], ucx_verson="1.13.1")
    said = "environment 'any': extras: unknown word 'ucx_verson'; did you mean 'ucx_version'?"
    assert said in refused(bench)


def test_a_system_that_is_not_named_like_its_folder(bench):
    bench.ready()
    bench.site.rename(bench.site.with_name("bank"))
    bench.site = bench.site.with_name("bank")
    assert "systems/name is 'bench'; name it 'bank' like its folder" in refused(bench)


def test_malformed_references(bench):
    bench.ready()
    (bench.site / "references.yaml").write_text("references:\n  - for: {test: Osu}\n")
    assert "references.yaml: references/0" in refused(bench)


def test_a_partition_without_what_a_test_needs(bench):
    bench.partition(features=["intra-node", "storage"], extras={})
    features = {"btio_built": {"classes": ["S"], "subtypes": ["full"]}}
    bench.stack("any", ["hpl", "btio", "iozone"], **features)
    those = ("-n", "Hpl$|BtIo.*full.*ompio|Iozone%.*cached", "-c", "reframe/storage")
    run = bench.run(*those, path="reframe/compute/hpl.py")
    assert "Traceback" not in run.output
    for test, needed in (("Hpl", "memory_bytes"), ("BtIo", "directory"), ("Iozone", "directory")):
        assert run.case(test).result == "skip"
        assert f"undescribed: partition 'here': extras: {test} needs {needed!r}" in run.output


def test_a_partition_that_does_not_say_how_many_cores_it_has(bench):
    """If the suite assumed one core, the test would be skipped, or run with one rank."""
    bench.partition(processor={"num_cpus_per_core": 1})
    bench.stack("any", ["hpl"])
    run = bench.run("-n", "Hpl$", path="reframe/compute/hpl.py")
    assert run.case("Hpl").result == "skip"
    assert "undescribed: partition 'here': processor: num_cpus is missing" in run.output


def test_results_that_cannot_be_written(bench, tmp_path):
    (tmp_path / "file").write_text("")
    bench.ready()
    bench.results = tmp_path / "file" / "results"
    line = refused(bench)
    assert f"{bench.results}: results cannot be written here" in line
    assert "set ASSAY_RESULTS" in line


def test_results_below_a_path_with_a_blank(bench, tmp_path):
    bench.ready()
    bench.results = tmp_path / "my results"
    line = refused(bench)
    assert "ReFrame runs no jobs below a path with blanks; set ASSAY_RESULTS" in line


def on_this_machine(tmp_path, **variables):
    """The site of the machine itself, with these variables; returns what is refused."""
    config = ROOT / "site-config" / "local" / "reframe.py"
    run = run_reframe(config, tmp_path / "results", "-c", "reframe", "-R", "-r", **variables)
    assert run.returncode != 0
    return complaint(run.output)


def test_no_mpi(tmp_path):
    """With a PATH without mpirun."""
    (tmp_path / "bin").mkdir()
    line = on_this_machine(tmp_path, PATH=str(tmp_path / "bin"))
    assert "no MPI: mpirun is not on PATH" in line
    assert "make setup" in line


def test_a_scratch_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    line = on_this_machine(tmp_path, ASSAY_SCRATCH=str(tmp_path / "file" / "scratch"))
    if "no MPI" in line:
        pytest.skip("needs mpirun on this machine")
    assert "set ASSAY_SCRATCH to one that can" in line


def test_an_unknown_site(tmp_path):
    done = assay("sites", "atlantis")
    assert done.returncode == 64
    assert re.fullmatch(
        r"unknown site 'atlantis'; known are [\w, -]*\blocal\b[\w, -]*\n", done.stderr
    )
    missing = ROOT / "site-config" / "atlantis" / "reframe.py"
    run = run_reframe(missing, tmp_path / "results", "-c", "reframe", "-R", "-r")
    assert run.returncode != 0
    assert str(missing) in complaint(run.output)


def test_zero_tests_selected_is_a_red_run(tmp_path):
    given = {**os.environ, "ASSAY_RESULTS": tmp_path / "results", "SITE": "local"}
    done = shell.run("ci/acceptance.sh", "-n", "NoTestOfThatName", cwd=ROOT, apart=True, **given)
    if ".venv" in done.stderr and not Path(ROOT / ".venv").exists():
        pytest.skip("needs .venv: make setup")
    assert done.returncode != 0
    assert "nothing ran" in done.stderr


def test_the_sites_of_the_repository_are_accepted():
    done = assay("sites")
    assert done.returncode == 0, done.stdout
    assert "stack system" in done.stdout
