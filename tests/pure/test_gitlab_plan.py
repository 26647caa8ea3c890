"""The plan of an acceptance: jobs for all that ReFrame lists; no promised case is left out."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from shell import ROOT, module

from assay.store import sanitize
from assay.store.promise import Site

plan = module("ci/gitlab/plan.py")
pipeline = plan.gather

#: The list of ReFrame 4.10.4 for the smoke profile of the site local, shortened.
LISTING = """\
[List of matched checks]
- TransportOpens %transport=posix /5bd1fba1 @local:intra-node+system
- Iozone %sync=cached /8bf54acd @local:scratch+system
- Iozone %sync=cached /8bf54acd @local:tmpfs+system
- SharedMemoryAgainstTcp %faster=posix /f6ef1b0c @local:intra-node+system
    ^UcxPerftest %transport=tcp %operation=tag_bw /d4ac4816 @local:intra-node+system
      ^MemoryCopy /63373721 @local:intra-node+system
    ^UcxPerftest %transport=posix %operation=tag_bw /5b43f4e4 @local:intra-node+system
      ^MemoryCopy /63373721 @local:intra-node+system
Concretized 7 test case(s)
"""


STORAGE = frozenset(["storage"])
SITE = Site(
    {"scratch": STORAGE, "tmpfs": STORAGE},
    dict.fromkeys(("scratch", "tmpfs"), frozenset(["system"])),
    {"system": frozenset(["iozone"])},
)


def _reframes_job(hashcode: str, *needs: str) -> dict[str, object]:
    return {"script": [f"reframe -R  -n /{hashcode} -r --mode=smoke"], "needs": list(needs)}


#: The file that --ci-generate of ReFrame writes: one job for each test, on any partitions.
CHILD = {
    "cache": {"key": "x"},
    "stages": ["rfm-stage-0", "rfm-stage-1", "rfm-stage-2"],
    "TransportOpens_0": _reframes_job("5bd1fba1"),
    "Iozone_0": _reframes_job("8bf54acd"),
    "MemoryCopy": _reframes_job("63373721"),
    "UcxPerftest_10": _reframes_job("d4ac4816", "MemoryCopy"),
    "UcxPerftest_01": _reframes_job("5b43f4e4", "MemoryCopy"),
    "SharedMemoryAgainstTcp_0": _reframes_job("f6ef1b0c", "UcxPerftest_10", "UcxPerftest_01"),
}


def _described(hashcode: str, file: str, **more: object) -> dict[str, object]:
    return {"hashcode": hashcode, "@file": f"/suite/{file}.py", "figures": [], **more}


#: What --describe says of the tests that are no fixtures.
DESCRIBED = [
    _described("5bd1fba1", "node/transport", time_limit=60),
    _described("8bf54acd", "storage/iozone", time_limit=3600),
    _described("d4ac4816", "network/ucx", time_limit=120),
    _described("5b43f4e4", "network/ucx", time_limit=120),
    _described("f6ef1b0c", "network/ucx", time_limit=None, executable="true"),
]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The lists of ReFrame; a test may change them."""
    said: dict[str, object] = {"listing": LISTING, "child": CHILD, "described": DESCRIBED}
    monkeypatch.delenv("CI_PIPELINE_ID", raising=False)

    def reframe(arguments: list[str], action: list[str]) -> str:
        (first,) = action
        if first.startswith("--ci-generate="):
            Path(first.partition("=")[2]).write_text(yaml.safe_dump(said["child"]))
        if first == "--describe":
            return f"a warning\n{json.dumps(said['described'], indent=1)}"
        said["arguments"] = arguments
        return str(said["listing"])

    monkeypatch.setattr(plan, "reframe", reframe)
    monkeypatch.setattr(plan.listing, "words_found", lambda _: (SITE, []))
    return said


#: Makes a plan with these further arguments; returns the child pipeline and the promise.
Make = Callable[..., tuple[dict[str, Any], Any]]


@pytest.fixture
def made(listed: dict[str, object], tmp_path: Path) -> Make:
    def make(*arguments: str) -> tuple[dict[str, Any], Any]:
        run, child = tmp_path / "run", tmp_path / "child.yml"
        options = ["--site", "local", "--run", str(run), "--child", str(child), *arguments]
        plan.plan(plan.parser().parse_args(options))
        return yaml.safe_load(child.read_text()), pipeline.Promise.read(run / "promise.json")

    return make


def words(job: dict[str, Any]) -> list[str]:
    """The command line of a job."""
    (script,) = job["script"]
    return shlex.split(script)


def test_every_case_is_in_one_job_and_promised(made: Make) -> None:
    child, promise = made()
    jobs = {name: job for name, job in child.items() if isinstance(job, dict) and "script" in job}
    assert sorted(job.title for job in promise.jobs) == sorted(jobs)
    assert {words(job)[2] for job in jobs.values()} == {job.folder for job in promise.jobs}
    cases = [(case.name, case.where) for job in promise.jobs for case in job.cases]
    assert len(cases) == len(set(cases)) == 7
    assert ("Iozone %sync=cached", "local:tmpfs+system") in cases


def test_what_is_compared_is_measured_in_one_job(made: Make) -> None:
    child, promise = made()
    job = child["ucx 1 @local:intra-node+system"]
    hashes = {"/f6ef1b0c", "/d4ac4816", "/63373721", "/5b43f4e4"}
    script, run, folder, *_ = words(job)
    assert script == "ci/gitlab/case.sh" and Path(run, "promise.json").exists()
    assert words(job)[3:6] == ["0", "full", "local:intra-node"]
    assert set(words(job)[6:]) == hashes
    assert [len(job.cases) for job in promise.jobs if job.folder == folder] == [4]


def many(*limits: object, name: str = "Osu") -> tuple[list[Any], dict[str, dict[str, object]]]:
    """One case for each time limit, all of one file, and what ReFrame says of their tests."""
    found = [plan.Case(f"{name} %n={n}", f"{n:08x}", "s:p+e") for n in range(len(limits))]
    tests = {
        case.hash: _described(case.hash, "network/osu", time_limit=limit)
        for case, limit in zip(found, limits, strict=True)
    }
    return found, tests


def test_cases_of_one_file_and_place_share_jobs_in_their_order() -> None:
    found, tests = many(*[600] * 75)
    made = plan.jobs(found, {case.hash: set() for case in found}, tests)
    assert [job.title for job in made] == [f"osu {n} @s:p+e" for n in (1, 2, 3)]
    assert [len(job.cases) for job in made] == [30, 30, 15]
    assert [case for job in made for case in job.cases] == found


def test_cases_that_are_compared_are_never_in_two_jobs() -> None:
    """The last needs one of the first: they are together, and no case is in two jobs."""
    found, tests = many(*[600] * 31)
    needed: dict[str, set[str]] = {case.hash: set() for case in found}
    needed[found[-1].hash] = {found[0].hash}
    made = plan.jobs(found, needed, tests)
    (job,) = [job for job in made if found[0] in job.cases]
    assert found[-1] in job.cases
    assert sorted(case.name for job in made for case in job.cases) == sorted(c.name for c in found)
    needed[found[-1].hash] = {case.hash for case in found[:-1]}
    assert [len(job.cases) for job in plan.jobs(found, needed, tests)] == [31]


@pytest.mark.parametrize(
    ("limits", "hours"),
    [
        ((28800,), 6 + 9 * 8),  # HplStudy: nine launches, and the queue
        ((600,) * 30, 6 + 5 + 8 / 6),
        ((None, 600), 6 + 4 + 1 / 6 + 8 * 4),  # found on the node
        ((100 * 3600,) * 30, 30 * 24),  # GitLab refuses more
    ],
)
def test_a_job_has_the_time_of_its_cases(limits: tuple[object, ...], hours: float) -> None:
    found, tests = many(*limits)
    seconds = plan.timeout(found, tests, plan.PROFILES["full"])
    assert seconds == pytest.approx(hours * 3600)


def test_each_job_states_its_own_time(made: Make) -> None:
    child, _ = made("--profile", "smoke")
    assert "timeout" not in child["default"]
    assert child["iozone 1 @local:tmpfs+system"]["timeout"] == f"{30 + 9 * 60}m"
    # Two of two minutes, a fixture that states no limit, and a comparison that takes no time.
    fixture = plan.UNSTATED // 60
    assert child["ucx 1 @local:intra-node+system"]["timeout"] == f"{30 + 4 + 9 * fixture}m"


def test_the_site_of_the_pipeline_decides_and_not_the_name_of_the_host(
    made: Make, listed: dict[str, object]
) -> None:
    _, promise = made()
    assert "--system=local" in cast("list[str]", listed["arguments"])
    assert promise.site["narrowed"] == []


def test_a_part_of_a_system_is_a_part_of_the_promise(made: Make, listed: dict[str, object]) -> None:
    _, promise = made("--system", "local:tmpfs")
    assert "--system=local:tmpfs" in cast("list[str]", listed["arguments"])
    assert promise.site["narrowed"] == ["--system=local:tmpfs"]


def test_two_measurements_never_share_nodes_and_each_partition_has_a_column(made: Make) -> None:
    child, promise = made()
    assert child["stages"] == ["intra-node", "scratch", "tmpfs"]
    jobs = [child[job.title] for job in promise.jobs]
    assert {job["resource_group"] for job in jobs} == {"assay-nodes-local"}
    # This group differs from the one that the trigger job holds. Otherwise no job would ever start.
    assert "assay-nodes" not in (ROOT / "ci/gitlab-ci.yml").read_text()
    for job in jobs:
        assert job["needs"] == []  # a partition that fails holds up no other
        assert job["artifacts"]["when"] == "always"


def test_the_child_pipeline_is_one_that_gitlab_accepts(made: Make) -> None:
    from test_gitlab_yaml import VALIDATOR

    child, _ = made("--tags", '["login", "gpu"]', "--profile", "smoke")
    assert [error.message for error in VALIDATOR.iter_errors(child)] == []
    assert child["default"]["tags"] == ["login", "gpu"]


def test_only_the_partitions_that_are_asked_for(made: Make) -> None:
    child, promise = made("--partitions", "tmpfs scratch")
    assert child["stages"] == ["scratch", "tmpfs"]
    assert len(promise.jobs) == 2


def test_a_partition_without_a_case_is_refused(made: Make, tmp_path: Path) -> None:
    said = "no case on the partition tmp of local; there are cases on intra-node, scratch, tmpfs"
    with pytest.raises(plan.Refusal, match=said):
        made("--partitions", "tmp scratch")
    assert not (tmp_path / "run").exists()


def test_nothing_selected_is_refused(made: Make, listed: dict[str, object]) -> None:
    listed.update(listing="Concretized 0 test case(s)\n", child={"stages": []})
    with pytest.raises(plan.Refusal, match="no case of local is selected by"):
        made()


def test_a_word_that_is_no_run_is_refused(made: Make) -> None:
    """GitLab lets a schedule or a trigger set any word."""
    with pytest.raises(plan.Refusal, match=r"ASSAY_RUN=ful: set it to smoke, precheck, full$"):
        made("--profile", "ful")


def test_a_line_that_is_not_understood_is_no_case_less(
    made: Make, listed: dict[str, object]
) -> None:
    listed["listing"] = LISTING.replace("- Iozone", "* Iozone", 1)
    with pytest.raises(plan.Refusal, match="ReFrame counts 7 cases, 6 are listed"):
        made()


def test_the_promise_of_another_plan_is_left_alone(made: Make, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(FileExistsError):
        made()


def test_budgets_are_promised(made: Make, tmp_path: Path) -> None:
    _, promise = made("--profile", "precheck")
    assert (promise.minutes, promise.node_hours) == (30, 2)
    assert json.loads((tmp_path / "run/promise.json").read_text())["schema"] == pipeline.SCHEMA


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-n", "BtIo", "-S", "BtIo.npb_class=E"], "select: '-S' does not select"),
        (["--setvar=x=1"], "select: '--setvar=x=1' does not select"),
        (["-n"], "select: '-n' lacks its value"),
    ],
)
def test_what_the_jobs_would_not_know_of_is_refused(
    made: Make, tmp_path: Path, arguments: list[str], said: str
) -> None:
    with pytest.raises(plan.Refusal, match=re.escape(said)):
        made("--", *arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("listed")
def test_the_plan_is_compared_with_the_promise_of_the_site(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-config/local"
    site.mkdir(parents=True)
    (tmp_path / "site-config/vocabulary.yaml").touch()
    (site / "promise.yaml").write_text("partitions: {scratch: {}, tmpfs: {}}")
    (tmp_path / "reframe").mkdir()
    (tmp_path / "reframe/cases.txt").write_text(
        "".join(f"Iozone %sync={sync} | +storage | * | smoke\n" for sync in ("cached", "o_sync"))
    )
    monkeypatch.setattr(plan, "ROOT", tmp_path)
    _, promise = made("--partitions", "tmpfs scratch")
    assert promise.site["narrowed"] == ["partitions: tmpfs scratch"]
    assert not promise.site["faults"]
    (tmp_path / "run/promise.json").unlink()
    (tmp_path / "run").rmdir()
    _, promise = made()
    *_, missing, unknown = promise.site["faults"]
    assert "Iozone on scratch+system: 1 of 2, without Iozone sync=o_sync" in missing
    assert "cases.txt does not list " in unknown


def test_the_promise_keeps_the_figures_and_the_pipeline(
    made: Make, listed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost job is then missing in the right figure, and results of another one are noticed."""
    figure = {"kind": "heat map", "name": "IOzone: read", "at": "{partition}", "column": "read"}
    listed["described"] = [_described("8bf54acd", "storage/iozone", figures=[figure])]
    monkeypatch.setenv("CI_PIPELINE_ID", "77")
    monkeypatch.setenv("CI_COMMIT_SHORT_SHA", "0a1b2c3d")
    _, promise = made()
    figures = {(case.name, case.where): case.figures for job in promise.jobs for case in job.cases}
    assert figures["Iozone %sync=cached", "local:tmpfs+system"] == [figure]
    assert promise.extras == {"pipeline": "77", "commit": "0a1b2c3d"}
    assert sanitize.reframe_date(promise.planned) is not None


def test_what_a_cancelled_job_left_is_ended(made: Make) -> None:
    child, promise = made("--directory", "assay/")
    assert child["default"]["after_script"] == ["assay/ci/gitlab/end.sh"]
    assert not any("after_script" in child[job.title] for job in promise.jobs)


def test_variables_of_reframe_in_the_job_that_plans_narrow_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    def run(*_: object, **more: Any) -> SimpleNamespace:
        given.update(more["env"])
        return SimpleNamespace(returncode=0, stdout="")

    monkeypatch.setenv("RFM_SYSTEM", "local:tmpfs")
    monkeypatch.setattr(plan.subprocess, "run", run)
    plan.reframe([], ["-lC"])
    assert {name: value for name, value in given.items() if name.startswith("RFM_")} == {
        "RFM_COLORIZE": "n"
    }
