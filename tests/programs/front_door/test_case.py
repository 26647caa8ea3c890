"""ci/gitlab/case.sh: the files that a job leaves for the verdict, however the job ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shell import program, run

WRITES = 'mkdir -p "$ASSAY_RESULTS/reports"; touch "$ASSAY_RESULTS/reports/run-report-0.json"'


@pytest.mark.parametrize(
    ("reframe", "left"),
    [
        (f"{WRITES}; exit 0", ["7"]),
        (f"{WRITES}; exit 1", ["7"]),
        ("exit 1", ["7.part"]),
        (f"{WRITES}; kill -KILL $PPID", ["7.part"]),
    ],
    ids=["passed", "failed", "left nothing", "its runner died"],
)
def test_a_job_that_began_is_seen_to_have(checkout: Path, reframe: str, left: list[str]) -> None:
    programs = checkout.parent / "programs"
    program(programs, "make")
    program(checkout / ".venv/bin", "reframe", reframe)
    run(
        "bash",
        checkout / "ci/gitlab/case.sh",
        *(checkout.parent / "run", "Hpl-1", "1", "smoke", "here", "/1"),
        PATH=f"{programs}:{os.environ['PATH']}",
        SITE="local",
        CI_JOB_ID="7",
    )
    folder = checkout.parent / "run/jobs/Hpl-1"
    assert sorted(path.name for path in folder.iterdir()) == left
    if left == ["7"]:
        assert (folder / "7/reports/run-report-0.json").exists()


def test_cases_run_on_the_system_of_the_plan(checkout: Path) -> None:
    """Variables of the project do not change that; one of them would end ReFrame."""
    programs = checkout.parent / "programs"
    program(programs, "make")
    seen = f'echo "$@" "verbose=${{RFM_VERBOSE:-}}" >{checkout.parent}/seen; {WRITES}'
    program(checkout / ".venv/bin", "reframe", seen)
    done = run(
        "bash",
        checkout / "ci/gitlab/case.sh",
        *(checkout.parent / "run", "osu-1", "1", "smoke", "here:node", "/1", "/2"),
        PATH=f"{programs}:{os.environ['PATH']}",
        SITE="local",
        CI_JOB_ID="7",
        RFM_VERBOSE="2",
        RFM_SYSTEM="other",
    )
    assert done.returncode == 0, done.stdout
    words = (checkout.parent / "seen").read_text()
    assert " --system here:node -n /1 -n /2 " in words
    assert words.endswith("verbose=\n")
