"""What jobs of the pipeline type, and ci/gitlab/local.sh, run by bash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from shell import ROOT, program, run


def test_a_second_pipeline_in_one_checkout_is_refused(checkout: Path) -> None:
    programs = checkout.parent / "programs"
    for name in ("node", "npm", "rsync"):
        program(programs, name)
    tool = checkout / ".cache/gitlab-ci-local"
    program(tool / "node_modules/.bin", "gitlab-ci-local", "echo RUNS; read -r _")
    (tool / "done").write_bytes((checkout / "ci/gitlab/package-lock.json").read_bytes())
    local = ["bash", str(checkout / "ci/gitlab/local.sh")]
    path = f"{programs}:/usr/bin:/bin"
    with subprocess.Popen(
        local, env={"PATH": path}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "RUNS\n"
        second = run(*local, PATH=path)
        assert second.returncode == 1
        assert second.stdout == (
            f"local: another pipeline runs in {checkout}: wait for its end, "
            "or use another checkout\n"
        )
        first.communicate("\n", timeout=60)
    assert first.returncode == 0
    assert run(*local, PATH=path).stdout == "RUNS\n"


def test_the_full_plan_of_a_cluster_is_one_that_gitlab_takes(tmp_path: Path) -> None:
    """The host of a runner need not have a name of the site; this one has none of ibisco."""
    child, folder = tmp_path / "child.yml", tmp_path / "run"
    plan = (sys.executable, ROOT / "ci/gitlab/plan.py", "--site", "ibisco", "--profile", "full")
    done = run(*plan, "--run", folder, "--child", child)
    assert done.returncode == 0, done.stdout
    promised = json.loads((folder / "promise.json").read_text())["jobs"]
    planned = yaml.safe_load(child.read_text())
    jobs = {name: job for name, job in planned.items() if isinstance(job, dict) and "script" in job}
    assert sorted(jobs) == sorted(job["title"] for job in promised)
    cases = [(case["name"], case["where"]) for job in promised for case in job["cases"]]
    assert len(cases) == len(set(cases)) > 600
    assert len(jobs) <= 100
    # GitLab counts the objects of the parsed file (DeepSize), 3.7 times its bytes.
    assert 4 * child.stat().st_size < 700_000
    # No job ends before its longest test may: HplStudy states 8 h.
    study = [job["timeout"] for name, job in jobs.items() if name.startswith("hpl_study ")]
    assert len(study) == 2
    assert all(int(timeout.removesuffix("m")) > 8 * 60 for timeout in study)


# --- sizes ----------------------------------------------------------------------------------------

MIB = 1 << 20


@pytest.mark.parametrize(
    ("kind", "key", "setting"),
    [
        ("artefact", "ASSAY_ARTIFACT_MB", "Maximum artifacts size"),
        ("pages", "ASSAY_PAGES_MB", "Maximum size of pages"),
    ],
)
def test_what_gitlab_would_refuse_is_named_with_its_excess_and_the_key(
    tmp_path: Path, kind: str, key: str, setting: str
) -> None:
    (tmp_path / "outputs").write_bytes(os.urandom(3 * MIB // 2))
    fits = [ROOT / "ci/gitlab/fits.sh", kind, tmp_path]
    assert run(*fits).returncode == 0  # 100 MiB
    assert run(*fits, **{key: "2"}).returncode == 0
    done = run(*fits, **{key: "1"})
    assert done.returncode == 1
    assert "has 1.5 MiB, 0.5 MiB above the limit of 1 MiB: " in done.stdout
    assert f"raise '{setting}' in the settings of GitLab, and {key} to the same" in done.stdout
    assert f"{key}=1G is no number of MiB" in run(*fits, **{key: "1G"}).stdout


def test_gitlab_compresses_artefacts_and_not_pages(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_bytes(bytes(2 * MIB))
    given = {"ASSAY_ARTIFACT_MB": "1", "ASSAY_PAGES_MB": "1"}
    codes = {
        k: run(ROOT / "ci/gitlab/fits.sh", k, tmp_path, **given) for k in ("artefact", "pages")
    }
    assert {k: done.returncode for k, done in codes.items()} == {"artefact": 0, "pages": 1}


@pytest.fixture
def left(checkout: Path) -> Path:
    """What a job left: a run report, a record, and an output of 1.5 MiB."""
    program(checkout / ".venv/bin", "python", 'echo REPORT >"$3"; exit ${WANT:-0}')
    run_folder = checkout.parent / "run"
    job = run_folder / "jobs/Hpl-1/7"
    (job / "output").mkdir(parents=True)
    for name in ("run-report-0.json", "output/assay.json"):
        (job / name).write_text("{}")
    (job / "output/rfm_job.out").write_bytes(os.urandom(3 * MIB // 2))
    (run_folder / "promise.json").write_text("{}")
    return run_folder


def kept(checkout: Path) -> set[str]:
    return {f.name for f in (checkout / "results/pipeline").rglob("*") if f.is_file()}


@pytest.mark.parametrize("code", [0, 1, 4])
def test_the_verdict_is_that_of_the_report(checkout: Path, left: Path, code: int) -> None:
    done = run(checkout / "ci/gitlab/verdict.sh", ASSAY_RUN_DIR=left, WANT=code)
    assert done.returncode == code, done.stdout
    assert "rfm_job.out" in kept(checkout)


@pytest.mark.parametrize(("code", "ends"), [(0, 2), (3, 3), (4, 2)])
def test_evidence_that_gitlab_would_refuse_is_red_and_its_smaller_part_is_kept(
    checkout: Path, left: Path, code: int, ends: int
) -> None:
    script = checkout / "ci/gitlab/verdict.sh"
    done = run(script, ASSAY_RUN_DIR=left, WANT=code, ASSAY_ARTIFACT_MB=1)
    assert done.returncode == ends
    assert kept(checkout) == {"report.html", "promise.json", "run-report-0.json", "assay.json"}
    assert f"they are in {left} for 30 days" in done.stdout
    assert (left / "jobs/Hpl-1/7/output/rfm_job.out").exists()


def test_a_verdict_without_a_plan_says_so(checkout: Path) -> None:
    done = run(checkout / "ci/gitlab/verdict.sh")
    assert done.returncode != 0
    assert "nothing was planned, so nothing ran - see the jobs before" in done.stdout
