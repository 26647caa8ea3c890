"""ReFrame itself is refused if it would use another system, or only a part of the site's system."""

import os

import pytest
import shell
from bench import ROOT, run_reframe
from test_bad_input import complaint, refused

pytestmark = pytest.mark.slow


def of_another_host(bench):
    """A site whose pattern matches no host."""
    config = bench.ready().write()
    spec = config.with_name("site.json")
    spec.write_text(spec.read_text().replace('".*"', '"login[0-9]+[.]nowhere"'))
    return config


@pytest.mark.parametrize("action", [("-r",), ("-L",), ("-lC",)])
def test_another_host_is_one_line_and_no_run(bench, action):
    config = of_another_host(bench)
    run = run_reframe(config, bench.results, "-c", "reframe", "-R", *action)
    assert run.returncode != 0
    assert not run.cases
    line = complaint(run.output)
    assert "is not of the site 'bench' (its hostnames are login[0-9]+[.]nowhere)" in line
    assert "say --system=bench" in line


def test_a_system_that_was_said_runs_on_any_host(bench):
    config = of_another_host(bench)
    arguments = ("-c", "reframe/node/suite.py", "-n", "SuiteLoads", "--dry-run")
    run = run_reframe(config, bench.results, *arguments, "--system=bench")
    assert run.returncode == 0, run.output
    run = run_reframe(config, bench.results, *arguments, "--system=generic")
    assert "--system=generic is not of the site 'bench'" in complaint(run.output)


@pytest.mark.parametrize("name", ["RFM_SYSTEM", "RFM_CONFIG_FILES", "RFM_CHECK_SEARCH_RECURSIVE"])
def test_a_variable_that_narrows_the_run_is_refused(bench, name):
    line = refused(bench.ready(), **{name: "bench:here"})
    assert f"{name} in the environment" in line
    assert f"unset {name}" in line


@pytest.mark.parametrize(
    "option", ["--skip-sanity-check", "--skip-performance-check", "--disable-hook=_judge"]
)
def test_an_option_that_switches_checks_off_is_refused(bench, option):
    said = f"{option.partition('=')[0]}: a run without its checks proves nothing; leave the option"
    assert said in refused(bench.ready(), option)


def test_the_acceptance_and_the_plan_of_a_pipeline_are_refused_too(tmp_path):
    """With RFM_SYSTEM=local:tmpfs, only 5 of 80 cases remained, and the exit code was 0."""
    plan = [".venv/bin/python", "ci/gitlab/plan.py"]
    files = [f"--run={tmp_path}/run", f"--child={tmp_path}/child.yml"]
    for command in (["ci/acceptance.sh"], [*plan, *files]):
        given = {"ASSAY_RESULTS": tmp_path / "results", "RFM_SYSTEM": "local:tmpfs"}
        done = shell.run(*command, cwd=ROOT, **{**os.environ, "SITE": "local", **given})
        if "no MPI" in done.stdout:
            pytest.skip("needs mpirun on this machine")
        assert done.returncode != 0
        assert "unset RFM_SYSTEM" in done.stdout
    assert not list(tmp_path.glob("results/reports/*"))
