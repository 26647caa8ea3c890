"""How a call of ReFrame differs from the plan of its site."""

from pathlib import Path

import pytest

from assay.prove import call as calls
from assay.prove import plan
from assay.prove.plan import Doubt, Note
from assay.reframe_compat.command import Invocation, Option

SITE, SUITE = Path("/a/site-config/x/reframe.py"), Path("/a/reframe")


def call(*options):
    given = tuple(Option(*option) for option in options)
    return calls.of_call(Invocation(True, None, given), SITE, SUITE, ("smoke", "full"), 8)


@pytest.mark.parametrize(
    "option",
    [
        ("verbose", "-v"),
        ("verbose", "RFM_VERBOSE", "2"),
        ("colorize", "RFM_COLORIZE", "n"),
        ("report_file", "--report-file", "/tmp/x.json"),
        ("mode", "--mode", "smoke"),
        ("system", "--system", "x"),
        ("checkpath", "-c", str(SUITE)),
        ("config_files", "-C", str(SITE)),
        ("recursive", "-R"),
        ("max_retries", "--max-retries", "8"),
        ("vars", "-S", "least_launches=6"),
        ("vars", "-S", "Osu.least_launches=6"),
        ("vars", "-S", "profile=full"),
        ("job_options", "-J", "job-name=assay"),
        ("session_extras", "--session-extras", "commit=1"),
    ],
)
def test_what_prints_names_or_repeats_the_plan_is_only_recorded(option):
    found = call(option)
    assert (found.selected, found.changed, found.other_cases) == ((), (), False)
    assert found.given == (str(Option(*option)),)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("names", "-n", "Osu"), "-n Osu"),
        (("cpu_only", "--cpu-only"), "--cpu-only"),
        (("system", "--system", "x:tmpfs"), "--system=x:tmpfs"),
        (("system", "RFM_SYSTEM", "x:tmpfs"), "RFM_SYSTEM=x:tmpfs"),
        (("mode", "--mode", "paper-full"), "--mode=paper-full"),
        (("checkpath", "-c", "/tmp/other"), "-c /tmp/other"),
        (("checkpath", "RFM_CHECK_SEARCH_PATH", "/tmp/other"), "RFM_CHECK_SEARCH_PATH=/tmp/other"),
        (("skip_system_check", "--skip-system-check"), "--skip-system-check"),
        (("distribute", "--distribute", "all"), "--distribute=all"),
    ],
)
def test_an_option_that_selects_some_of_the_cases_is_named(option, said):
    found = call(option)
    assert (found.selected, found.changed) == ((said,), ())


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("vars", "-S", "num_tasks_per_core=2"), "-S num_tasks_per_core=2"),
        (("vars", "-S", "local=1"), "-S local=1"),
        (("vars", "-S", "env_vars=UCX_RNDV_THRESH:0"), "-S env_vars=UCX_RNDV_THRESH:0"),
        (("vars", "-S", "profile=smoke"), "-S profile=smoke"),
        (("job_options", "-J", "nodelist=node01"), "-J nodelist=node01"),
        (("job_options", "-J", "--nodelist=node01"), "-J --nodelist=node01"),
        (("user_modules", "-m", "gcc"), "-m gcc"),
        (("module_mappings", "-M", "a: b"), "-M a: b"),
        (("unload_modules", "-u", "gcc"), "-u gcc"),
        (("purge_env", "--purge-env"), "--purge-env"),
        (("exec_policy", "--exec-policy", "async"), "--exec-policy=async"),
        (("stage", "-s", "/dev/shm"), "-s /dev/shm"),
        (("clean_stagedir", "--dont-restage"), "--dont-restage"),
        (("config_files", "-C", "/tmp/other.py"), "-C /tmp/other.py"),
        (("use_login_shell", "RFM_USE_LOGIN_SHELL", "1"), "RFM_USE_LOGIN_SHELL=1"),
        (("RFM_OF_TOMORROW", "RFM_OF_TOMORROW", "1"), "RFM_OF_TOMORROW=1"),
        (("of_tomorrow", "--of-tomorrow"), "--of-tomorrow"),
    ],
)
def test_any_other_option_is_a_difference(option, said):
    found = call(option)
    assert (found.selected, found.changed) == ((), (said,))
    assert found.other_cases == (option[0] == "vars")


def test_a_smoke_profile_is_the_plan_of_the_smoke_mode_only():
    smoke = ("vars", "-S", "profile=smoke")
    assert call(("mode", "--mode", "smoke"), smoke).changed == ()
    assert call(("mode", "--mode", "full"), smoke).changed == ("-S profile=smoke",)


def test_fewer_launches_than_those_of_the_mode_are_a_difference():
    fewer = ("max_retries", "--max-retries", "0")
    assert call(("mode", "--mode", "full"), fewer).changed == ("--max-retries=0",)
    assert call(("mode", "--mode", "full"), (*fewer[:2], "9")).changed == ()
    assert call(fewer).changed == ()  # a run without a mode launches each case once


def test_lines_are_sorted_by_their_class_and_each_is_said_once():
    lines = ["fault", Doubt("doubt"), Note("note"), "fault", Doubt("doubt")]
    assert plan.sorted_out(lines) == (["fault"], ["doubt"], ["note"])


def test_a_doubt_stays_a_doubt_where_a_place_is_added_to_faults():
    assert plan.within("a - b", "fault") == "a - b: fault"
    assert type(plan.within("a - b", Doubt("doubt"))) is Doubt
