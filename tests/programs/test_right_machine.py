"""ReFrame itself is refused if it would use another system, or only a part of the site's system."""

import pytest
from bench import OWN, run_reframe
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


@pytest.mark.parametrize("name", ["RFM_SYSTEM", "RFM_USE_LOGIN_SHELL"])
def test_a_variable_that_may_change_the_run_makes_it_partial(bench, name):
    """With RFM_SYSTEM=local:tmpfs, only 5 of 80 cases remained, and the run was green."""
    tests = bench.ready().check("own", f"{OWN}@rfm.simple_test\nclass One(Own):\n    pass\n")
    value = {"RFM_SYSTEM": "bench:here"}.get(name, "0")
    run = bench.run(path=tests, **{name: value})
    assert run.returncode == 0, run.output
    (line,) = [line for line in run.output.splitlines() if line.startswith("PARTIAL")]
    assert name in line


@pytest.mark.parametrize(
    "option", ["--skip-sanity-check", "--skip-performance-check", "--disable-hook=_judge"]
)
def test_an_option_that_switches_checks_off_is_refused(bench, option):
    said = f"{option.partition('=')[0]}: a run without its checks proves nothing; leave the option"
    assert said in refused(bench.ready(), option)
