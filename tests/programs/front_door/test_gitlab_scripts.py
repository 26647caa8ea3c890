"""What jobs of the pipeline type, and ci/gitlab/local.sh, run by bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml
from shell import ROOT, program, run


def test_a_word_that_is_no_run_is_refused_in_one_line() -> None:
    pipeline = yaml.safe_load((ROOT / "ci/gitlab-ci.yml").read_text().split("\n---\n")[1])
    refusal = pipeline["plan"]["script"][0]
    done = run("bash", "-c", refusal, ASSAY_RUN="ful")
    assert done.returncode != 0
    assert "ASSAY_RUN=ful - set it to smoke, precheck or full" in done.stdout
    assert run("bash", "-c", refusal, ASSAY_RUN="full", ASSAY_MODE="full").returncode == 0


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
