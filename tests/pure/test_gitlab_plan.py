"""The plan of an acceptance: jobs for all that ReFrame lists; no promised job is left out."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from assay.results import pipeline

ROOT = Path(__file__).resolve().parents[2]

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


@pytest.fixture(scope="module")
def plan() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plan", ROOT / "ci/gitlab/plan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["plan"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def listed(plan: ModuleType, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The lists of ReFrame; a test may change them."""
    said: dict[str, object] = {"listing": LISTING, "child": CHILD}

    def reframe(arguments: list[str], action: list[str]) -> str:
        (first,) = action
        if first.startswith("--ci-generate="):
            Path(first.partition("=")[2]).write_text(yaml.safe_dump(said["child"]))
        return str(said["listing"])

    monkeypatch.setattr(plan, "reframe", reframe)
    monkeypatch.setattr(plan.listing, "found", lambda _: (None, []))
    return said


def made(plan: ModuleType, folder: Path, *arguments: str) -> tuple[dict, pipeline.Promise]:
    child = folder / "child.yml"
    options = ["--site", "local", "--run", str(folder / "run"), "--child", str(child), *arguments]
    plan.plan(plan.parser().parse_args(options))
    return yaml.safe_load(child.read_text()), pipeline.Promise.read(folder / "run/promise.json")


@pytest.mark.usefixtures("listed")
def test_every_case_is_in_one_job_and_promised(plan: ModuleType, tmp_path: Path) -> None:
    child, promise = made(plan, tmp_path)
    jobs = {name: job for name, job in child.items() if isinstance(job, dict) and "script" in job}
    assert sorted(promise.titles.values()) == sorted(jobs)
    assert {job["variables"]["ASSAY_JOB"] for job in jobs.values()} == set(promise.jobs)
    cases = [case for their in promise.jobs.values() for case in their]
    assert len(cases) == len(set(cases)) == 7
    assert ("Iozone %sync=cached", "local:tmpfs+system") in cases


@pytest.mark.usefixtures("listed")
def test_what_is_compared_is_measured_in_one_job(plan: ModuleType, tmp_path: Path) -> None:
    child, promise = made(plan, tmp_path)
    name = "SharedMemoryAgainstTcp %faster=posix and 3 that it is compared with"
    job = child[f"{name} @local:intra-node+system"]
    hashes = {"/f6ef1b0c", "/d4ac4816", "/63373721", "/5b43f4e4"}
    assert set(job["variables"]["ASSAY_TESTS"].split()) == hashes
    assert len(promise.jobs[job["variables"]["ASSAY_JOB"]]) == 4


@pytest.mark.usefixtures("listed")
def test_two_measurements_never_share_nodes_and_each_partition_has_a_column(
    plan: ModuleType, tmp_path: Path
) -> None:
    child, promise = made(plan, tmp_path)
    assert child["stages"] == ["intra-node", "scratch", "tmpfs"]
    jobs = [child[name] for name in promise.titles.values()]
    assert {job["resource_group"] for job in jobs} == {"assay-nodes-local"}
    # This group differs from the one that the trigger job holds. Otherwise no job would ever start.
    assert "assay-nodes" not in (ROOT / "ci/gitlab-ci.yml").read_text()
    for job in jobs:
        assert job["needs"] == []  # a partition that fails holds up no other
        assert job["artifacts"]["when"] == "always"
        assert job["artifacts"]["reports"]["junit"].startswith(job["artifacts"]["paths"][0])


@pytest.mark.usefixtures("listed")
def test_the_child_pipeline_is_one_that_gitlab_accepts(plan: ModuleType, tmp_path: Path) -> None:
    from test_gitlab_yaml import VALIDATOR

    child, _ = made(plan, tmp_path, "--tags", '["login", "gpu"]', "--timeout", "2h")
    assert [error.message for error in VALIDATOR.iter_errors(child)] == []
    assert child["default"]["tags"] == ["login", "gpu"]


@pytest.mark.usefixtures("listed")
def test_only_the_partitions_that_are_asked_for(plan: ModuleType, tmp_path: Path) -> None:
    child, promise = made(plan, tmp_path, "--partitions", "tmpfs scratch")
    assert child["stages"] == ["scratch", "tmpfs"]
    assert len(promise.jobs) == 2


@pytest.mark.usefixtures("listed")
def test_a_partition_without_a_case_is_refused(plan: ModuleType, tmp_path: Path) -> None:
    said = "no case on the partition tmp of local; there are cases on intra-node, scratch, tmpfs"
    with pytest.raises(plan.Refusal, match=said):
        made(plan, tmp_path, "--partitions", "tmp scratch")
    assert not (tmp_path / "run").exists()


def test_nothing_selected_is_refused(
    plan: ModuleType, listed: dict[str, object], tmp_path: Path
) -> None:
    listed.update(listing="Concretized 0 test case(s)\n", child={"stages": []})
    with pytest.raises(plan.Refusal, match="no case of local is selected by"):
        made(plan, tmp_path)


def test_a_line_that_is_not_understood_is_no_case_less(
    plan: ModuleType, listed: dict[str, object], tmp_path: Path
) -> None:
    listed["listing"] = LISTING.replace("- Iozone", "* Iozone", 1)
    with pytest.raises(plan.Refusal, match="ReFrame counts 7 cases, 6 are listed"):
        made(plan, tmp_path)


@pytest.mark.usefixtures("listed")
def test_the_promise_of_another_plan_is_left_alone(plan: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(FileExistsError):
        made(plan, tmp_path)


@pytest.mark.usefixtures("listed")
def test_budgets_are_promised(plan: ModuleType, tmp_path: Path) -> None:
    _, promise = made(plan, tmp_path, "--minutes", "30", "--node-hours", "2")
    assert (promise.minutes, promise.node_hours) == (30, 2)
    assert json.loads((tmp_path / "run/promise.json").read_text())["schema"] == pipeline.SCHEMA


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-n", "BtIo", "-S", "BtIo.npb_class=E"], "select: '-S' does not select"),
        (["--setvar=x=1"], "select: '--setvar=x=1' does not select"),
        (["-n"], "select: '-n' lacks its value"),
    ],
)
def test_what_the_jobs_would_not_know_of_is_refused(
    plan: ModuleType, tmp_path: Path, arguments: list[str], said: str
) -> None:
    with pytest.raises(plan.Refusal, match=re.escape(said)):
        made(plan, tmp_path, "--", *arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("listed")
def test_the_plan_is_compared_with_the_promise_of_the_site(
    plan: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-config/local"
    site.mkdir(parents=True)
    (site / "expected.yaml").write_text(
        "cases: [{at: [scratch+system, tmpfs+system], tests: {Iozone: {cases: 2, sync: [cached, "
        "o_sync]}}}]"
    )
    monkeypatch.setattr(plan, "ROOT", tmp_path)
    _, promise = made(plan, tmp_path, "--partitions", "tmpfs scratch")
    assert promise.site["narrowed"] == ["partitions: tmpfs scratch"]
    assert not promise.site["faults"]
    (tmp_path / "run/promise.json").unlink()
    (tmp_path / "run").rmdir()
    _, promise = made(plan, tmp_path)
    missing, unknown = promise.site["faults"]
    assert "Iozone on scratch+system: 1 of 2, without sync=o_sync" in missing
    assert "expected.yaml does not promise " in unknown


@pytest.mark.usefixtures("listed")
def test_the_promise_keeps_the_figures_and_the_pipeline(
    plan: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    _, promise = made(plan, tmp_path)
    assert promise.figures["Iozone %sync=cached", "local:tmpfs+system"] == [figure]
    assert promise.extras == {"pipeline": "77", "commit": "0a1b2c3d"}
    assert promise.planned is not None
