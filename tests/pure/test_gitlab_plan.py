"""The plan of an acceptance: jobs for all that ReFrame lists; no promised job is left out."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The lists of ReFrame; a test may change them."""
    said: dict[str, object] = {"listing": LISTING, "child": CHILD}
    monkeypatch.delenv("CI_PIPELINE_ID", raising=False)

    def reframe(arguments: list[str], action: list[str]) -> str:
        (first,) = action
        if first.startswith("--ci-generate="):
            Path(first.partition("=")[2]).write_text(yaml.safe_dump(said["child"]))
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
    name = "SharedMemoryAgainstTcp %faster=posix and 3 that it is compared with"
    job = child[f"{name} @local:intra-node+system"]
    hashes = {"/f6ef1b0c", "/d4ac4816", "/63373721", "/5b43f4e4"}
    script, run, folder, *_ = words(job)
    assert script == "ci/gitlab/case.sh" and Path(run, "promise.json").exists()
    assert words(job)[3:6] == ["0", "full", "local:intra-node"]
    assert set(words(job)[6:]) == hashes
    assert [len(job.cases) for job in promise.jobs if job.folder == folder] == [4]


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
    assert child["default"]["timeout"] == "30m"


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


@pytest.mark.usefixtures("listed")
def test_the_promise_keeps_the_figures_and_the_pipeline(
    made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost job is then missing in the right figure, and results of another one are noticed."""
    figure = {"kind": "heat map", "name": "IOzone: read", "at": "{partition}", "column": "read"}
    described = json.dumps([{"hashcode": "8bf54acd", "figures": [figure]}], indent=1)
    reframe = plan.reframe
    monkeypatch.setattr(
        plan,
        "reframe",
        lambda a, b: f"a warning\n{described}" if b == ["--describe"] else reframe(a, b),
    )
    monkeypatch.setenv("CI_PIPELINE_ID", "77")
    monkeypatch.setenv("CI_COMMIT_SHORT_SHA", "0a1b2c3d")
    _, promise = made()
    figures = {(case.name, case.where): case.figures for job in promise.jobs for case in job.cases}
    assert figures["Iozone %sync=cached", "local:tmpfs+system"] == [figure]
    assert promise.extras == {"pipeline": "77", "commit": "0a1b2c3d"}
    assert sanitize.reframe_date(promise.planned) is not None


def test_what_a_cancelled_job_left_is_ended(made: Make) -> None:
    child, promise = made("--directory", "assay/")
    for name in [job.title for job in promise.jobs]:
        assert child[name]["after_script"] == ["assay/ci/gitlab/end.sh"]


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
