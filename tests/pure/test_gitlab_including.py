"""A project that includes the pipeline cannot disarm its verdict, or mix two versions of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import ROOT, module

including = module("ci/gitlab/including.py")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that includes the pipeline, and changes nothing."""
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    for name in ("CI_CONFIG_PATH", "ASSAY_PIPELINE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".gitlab-ci.yml").write_text(
        "include:\n  - {project: hpc/assay, ref: abc, file: ci/gitlab-ci.yml}\n"
    )
    return tmp_path


def add(project: Path, text: str, name: str = ".gitlab-ci.yml") -> None:
    with (project / name).open("a") as file:
        file.write(text)


def test_a_project_that_changes_nothing_is_accepted(project: Path) -> None:
    assert list(including.faults()) == []
    (project / ".gitlab-ci.yml").unlink()  # kept elsewhere
    assert list(including.faults()) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("verdict: {allow_failure: true}\n", "verdict: allow_failure"),
        ("verdict: {allow_failure: {exit_codes: 1}}\n", "verdict: allow_failure"),
        ("verdict:\n  rules: [{when: never}]\n", "verdict: rules"),
        ("verdict:\n  script: !reference [.a, script]\n", "verdict: script"),
        ("verdict: {extends: .mine}\n", "verdict: extends"),
        ("plan: {allow_failure: true}\n", "plan: allow_failure"),
    ],
)
def test_a_verdict_that_may_fail_is_refused(project: Path, text: str, key: str) -> None:
    add(project, text)
    (line,) = including.faults()
    assert line == f"{project}/.gitlab-ci.yml: {key}: may hide a red verdict; remove it"


@pytest.mark.parametrize(
    "text", ["verdict: {tags: [big], timeout: 1h}\n", "verdict: {allow_failure: false}\n"]
)
def test_what_hides_nothing_may_be_changed(project: Path, text: str) -> None:
    add(project, text)
    assert list(including.faults()) == []


def test_a_file_that_the_project_includes_is_read_too(project: Path) -> None:
    add(project, "  - local: /ci/more.yml\n  - /ci/more.yml\n")
    (project / "ci").mkdir()
    add(project, "spec: {inputs: {}}\n---\ninclude: ci/more.yml\n", "ci/more.yml")
    add(project, "verdict: {when: manual}\n", "ci/more.yml")
    assert set(including.faults()) == {
        f"{project}/ci/more.yml: verdict: when: may hide a red verdict; remove it"
    }


def test_a_file_that_cannot_be_read_is_named(project: Path) -> None:
    add(project, "x: [\n")
    (line,) = including.faults()
    assert line.startswith(f"{project}/.gitlab-ci.yml: cannot be read (")


def test_another_version_of_the_pipeline_than_the_checkouts_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = including.VERSION.search((ROOT / "ci/gitlab-ci.yml").read_text())[1]
    monkeypatch.setenv("ASSAY_PIPELINE_VERSION", here)
    assert list(including.faults()) == []
    monkeypatch.setenv("ASSAY_PIPELINE_VERSION", "1")
    (line,) = including.faults()
    assert f"is of version 1, the checkout's ci/gitlab-ci.yml is of version {here}" in line
    assert "ref: set to the commit of the submodule" in line


def test_it_runs_before_a_merge_and_before_anything_is_measured() -> None:
    from test_gitlab_yaml import interpolated

    pipeline = interpolated(site="local")
    for job in ("lock check", "plan"):
        assert ".venv/bin/python ci/gitlab/including.py" in pipeline[job]["script"]
