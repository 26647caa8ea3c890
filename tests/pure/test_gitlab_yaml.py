"""GitLab's published schema, and a rule beyond it: every script that a job runs must exist."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import jsonschema
import pytest
import yaml
from shell import ROOT, module

PIPELINE = ROOT / "ci/gitlab-ci.yml"

SCHEMA = json.loads(
    (resources.files("check_jsonschema") / "builtin_schemas/vendor/gitlab-ci.json").read_text()
)
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)

#: Keys at the top level that do not name a job.
GLOBAL = {"workflow", "variables", "stages", "default", "include", "spec"}


def interpolated(**given: Any) -> dict[str, Any]:
    """The pipeline as GitLab sees it after it has inserted the inputs as text."""
    spec, text = PIPELINE.read_text().split("\n---\n")
    inputs = yaml.safe_load(spec)["spec"]["inputs"]
    unknown = set(given) - set(inputs)
    assert not unknown

    def value(match: re.Match[str]) -> str:
        known = inputs[match[1]]
        chosen = given.get(match[1], known.get("default"))
        assert chosen is not None, match[1]
        assert chosen in known.get("options", [chosen])
        return chosen if isinstance(chosen, str) else json.dumps(chosen)

    text = re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", value, text)
    assert "$[[" not in text
    return yaml.safe_load(text)


def jobs(**given: Any) -> dict[str, Any]:
    return {name: job for name, job in interpolated(**given).items() if name not in GLOBAL}


@pytest.mark.parametrize(
    "given",
    [
        {"site": "local"},
        {"site": "debian12", "stack": "spack", "spack": "rebuild", "image": "sign"},
        {"site": "x", "tags": ["login", "gpu"], "directory": "assay/", "partitions": "a b"},
    ],
)
def test_the_pipeline_is_one_that_gitlab_accepts(given: dict[str, Any]) -> None:
    assert [e.message for e in VALIDATOR.iter_errors(interpolated(**given))] == []


def test_the_header_and_this_repositorys_own_pipeline_are_too() -> None:
    header = yaml.safe_load(PIPELINE.read_text().split("\n---\n")[0])
    own = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
    for document in (header, own):
        assert [e.message for e in VALIDATOR.iter_errors(document)] == []
    assert jobs(**own["include"][0]["inputs"])


def test_the_schema_sees_a_job_with_a_reserved_name() -> None:
    """`image` was such a job until this test existed."""
    broken = interpolated(site="local")
    broken["image"] = broken.pop("image build")
    assert list(VALIDATOR.iter_errors(broken))


def test_every_job_has_a_stage_a_rule_and_what_it_needs() -> None:
    pipeline = interpolated(site="local")
    for name, job in jobs(site="local").items():
        assert job["stage"] in pipeline["stages"], name
        for need in job.get("needs", []):
            assert need in pipeline, (name, need)
    assert pipeline["stages"].index("verdict") > pipeline["stages"].index("acceptance")


def test_what_jobs_type_exists() -> None:
    rules = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    for job in jobs(site="local").values():
        script = "\n".join(job.get("script", []))
        for file in re.findall(r"\bci/[\w/.-]+", script):
            assert (ROOT / file).stat().st_mode & 0o111, file
        for line in re.findall(r"^make (.+)$", script, re.MULTILINE):
            assert {word for word in line.split() if "=" not in word} <= targets, line


def test_each_run_of_the_pipeline_is_one_that_the_plan_knows() -> None:
    known = list(module("ci/gitlab/plan.py").PROFILES)
    assert interpolated(site="local")["variables"]["ASSAY_RUN"]["options"] == known
    header = yaml.safe_load(PIPELINE.read_text().split("\n---\n")[0])
    assert header["spec"]["inputs"]["profile"]["options"] == known


def test_an_open_merge_request_does_not_suppress_the_acceptance() -> None:
    """One from the default branch did: GitLab then starts no pipeline of that branch."""
    (never,) = [r for r in interpolated(site="x")["workflow"]["rules"] if r.get("when") == "never"]
    assert "$CI_COMMIT_BRANCH != $CI_DEFAULT_BRANCH && " in never["if"]


def test_no_variable_of_the_pipeline_means_something_else_to_the_suite() -> None:
    """ASSAY_IMAGE was `none`, which the site `any` took for the path of an image."""
    pipeline = interpolated(site="any")
    ours = set(pipeline["variables"])
    ours |= set(re.findall(r'"(ASSAY_\w+)":', (ROOT / "ci/gitlab/plan.py").read_text()))
    assert {"ASSAY_RUN", "ASSAY_IMAGE_JOBS"} <= ours
    read = set()
    for file in [*ROOT.glob("src/**/*.py"), *ROOT.glob("site-config/*/reframe.py")]:
        read |= set(re.findall(r"\b(?:ASSAY|RFM)_[A-Z_]+\b", file.read_text()))
    # The plan gives the stack of a job by the variable that chooses it everywhere.
    assert ours & read == {"ASSAY_STACK"}


def test_paths_are_as_gitlab_has_them_in_its_archives() -> None:
    """GitLab would not find `./x` when it takes a child pipeline from an artefact."""
    for given in ({"site": "x"}, {"site": "x", "directory": "assay/"}):
        for job in jobs(**given).values():
            (include,) = job.get("trigger", {}).get("include", [None])
            if include:
                made = interpolated(**given)[include["job"]]["artifacts"]["paths"]
                assert any(include["artifact"].startswith(path) for path in made)
            for path in job.get("artifacts", {}).get("paths", []):
                assert not path.startswith((".", "/")) or path.startswith(".cache/")


def test_the_verdict_comes_whatever_the_acceptance_did() -> None:
    verdict = jobs(site="local")["verdict"]
    assert [rule["when"] for rule in verdict["rules"]] == ["always"]
    # Only PARTIAL is allowed: docs/command-line.md.
    assert verdict["allow_failure"] == {"exit_codes": 4}
    (kept,) = verdict["artifacts"]["paths"]
    assert all(path.startswith(kept) for path in verdict["artifacts"]["reports"].values())
    # With `needs`, the verdict would not wait for the jobs before the acceptance.
    assert "needs" not in verdict


def test_the_signing_key_is_known_to_one_job() -> None:
    signing = jobs(site="local", image="sign")["image sign"]
    assert signing["environment"]["name"] == "assay-signing"
    assert signing["artifacts"]["paths"] == ["build/assay.sif.sha256"]
    for name, job in jobs(site="local", image="sign").items():
        assert "IMAGE_KEY" not in json.dumps(job), name
        assert ("environment" in job) == (name == "image sign")


def test_what_grows_without_end_is_no_artefact() -> None:
    """GitLab's default takes 100 MB: the image has more, and the store of results grows."""
    for name, job in jobs(site="x", image="sign").items():
        assert not [p for p in job.get("artifacts", {}).get("paths", []) if p.endswith(".sif")], (
            name
        )
    pages = "\n".join(jobs(site="x")["pages"]["script"])
    assert "ci/gitlab/fits.sh pages" in pages
    assert not re.findall(r"^cp .*(?:history\.db|perflog|-r).*$", pages, re.MULTILINE)
    assert "cache" not in jobs(site="x")["pages"]  # the shared folder holds the history
