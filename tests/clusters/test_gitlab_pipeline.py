"""The pipeline itself, run by gitlab-ci-local on this machine: green, red, and the cause last.

gitlab-ci-local reports PASS for a child pipeline with a failed or a lost job. The verdict must not.
The one case that measures prints a recorded run, and other work on this machine does not matter.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import images
import pytest
import yaml
from bench import DATA, OF_NOW, ROOT, live_program

pytestmark = pytest.mark.slow

SECRET = "not-for-any-log-7c1d"

#: Removes the job of two cases from the plan, like a child pipeline that was cut short.
LOSE = """\
.venv/bin/python - <<END
from pathlib import Path
import yaml
file = Path("results/cases.yml")
child = yaml.safe_load(file.read_text())
del child[next(name for name in child if name.startswith("transport "))]
file.write_text(yaml.safe_dump(child, sort_keys=False))
END
"""


#: Prints a recorded run of IOzone as one of now, and holds its file open until that was seen.
IOZONE = """\
#!/bin/sh
for file; do :; done
{hold} "$file" O_SYNC
{of_now}
of_now {recorded} | sed "{change}"
"""


@dataclass(frozen=True)
class Ran:
    """A pipeline that has ended."""

    code: int
    log: str

    def of(self, job: str) -> list[str]:
        """What a job printed."""
        return re.findall(rf"^{re.escape(job)} +> (.*)$", self.log, re.MULTILINE)

    def state(self, job: str) -> str:
        found = re.findall(
            rf"^ (PASS|FAIL|WARN) +{re.escape(job)}(?: +\w+_script)? *$", self.log, re.MULTILINE
        )
        (state,) = set(found)
        return state


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A clone with the files of this checkout, and a link to its .venv."""
    for program in ("node", "npm", "rsync", "mpirun", "iozone"):
        live_program(program)
    clone = tmp_path_factory.mktemp("gitlab") / "assay"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    # Jobs that measure run on the default branch only, so the clone is on main.
    subprocess.run(["git", "checkout", "-q", "-B", "main"], cwd=clone, check=True)
    subprocess.run(["git", "remote", "remove", "origin"], cwd=clone, check=True)
    changed = subprocess.run(
        ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, changed):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    (clone / ".venv").symlink_to(ROOT / ".venv")
    # The environment is already the one under test, so no job builds it again.
    makefile = (clone / "Makefile").read_text()
    (clone / "Makefile").write_text(
        re.sub(r"^(setup|venv|system):.*\n(\t.*\n)*", r"\1:\n\t@true\n", makefile, flags=re.M)
    )
    (clone / "site-config/local/tolerances.yaml").write_text("other_work: 1000000\n")
    (clone / ".cache").mkdir()
    tool = ROOT / ".cache/gitlab-ci-local"
    tool.mkdir(parents=True, exist_ok=True)
    (clone / ".cache/gitlab-ci-local").symlink_to(tool)
    if (ROOT / ".cache/osu-py").is_dir():
        (clone / ".cache/osu-py").symlink_to(ROOT / ".cache/osu-py")
    yield clone


def iozone(folder: Path, change: str = "") -> Path:
    """A folder with a program for IOzone; `change` edits what it prints, in the words of sed."""
    words = [sys.executable, str(ROOT / "tests/programs/hold_file.py")]
    recorded = shlex.quote(str(DATA / "replay/iozone-smoke-o_sync/stdout"))
    script = IOZONE.format(hold=shlex.join(words), of_now=OF_NOW, recorded=recorded, change=change)
    (folder / "iozone").write_text(script)
    (folder / "iozone").chmod(0o755)
    return folder


def run(checkout: Path, path: Path, **plan: object) -> Ran:
    """Runs a pipeline of three cases in two jobs. The programs in `path` come first on PATH."""
    pipeline = {
        "include": [
            {
                "local": "ci/gitlab-ci.yml",
                "inputs": {
                    "site": "local",
                    "partitions": "intra-node tmpfs",
                    "select": "-n 'TransportOpens.*=(posix|sysv)|Iozone.*o_sync'",
                },
            }
        ],
        # The linters have tests of their own.
        "lint": {"rules": [{"when": "never"}]},
        "plan": plan,
    }
    (checkout / "pipeline.yml").write_text(yaml.safe_dump(pipeline))
    search = f"{path}:{os.environ['PATH']}"
    words = ("--file", "pipeline.yml", "--variable", f"IMAGE_KEY={SECRET}")
    done = images.run("ci/gitlab/local.sh", *words, cwd=checkout, PATH=search)
    return Ran(done.returncode, done.stdout)


@pytest.fixture(scope="module")
def healthy(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(checkout, iozone(tmp_path_factory.mktemp("recorded")))


@pytest.fixture(scope="module")
def broken(checkout: Path, healthy: Ran, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The next pipeline: one job is lost, and the parser does not know the output of another."""
    folder = iozone(tmp_path_factory.mktemp("unknown"), "s/^iozone test complete/done/")
    return run(checkout, folder, after_script=[LOSE])


def test_a_sound_machine_is_green(healthy: Ran) -> None:
    assert healthy.code == 0, healthy.log[-3000:]
    assert {healthy.state(job) for job in ("plan", "acceptance", "pages")} == {"PASS"}
    assert healthy.state("verdict") == "WARN"  # PARTIAL, as the pipeline selects
    *lines, verdict, _ = healthy.of("verdict")
    assert any("3 of 3 cases ran" in line for line in lines)
    assert verdict.startswith("verdict: PARTIAL: 3 of ")
    assert any("3 cases in 2 jobs" in line for line in healthy.of("plan"))


def test_a_lost_job_and_an_unknown_output_are_red_with_their_cause_last(broken: Ran) -> None:
    assert broken.code != 0
    assert broken.state("acceptance") == "PASS"  # gitlab-ci-local does not see the failure
    assert broken.state("verdict") == "FAIL"
    *causes, verdict, _ = broken.of("verdict")
    for transport in ("posix", "sysv"):  # each case of the lost job
        lost = f"FAIL TransportOpens %transport={transport} @local:intra-node+system: missing: the "
        assert any(cause.startswith(f"{lost}job 'transport 1 @") for cause in causes)
    unknown = "FAIL Iozone %sync=o_sync @local:tmpfs+system: iozone: the output is incomplete"
    assert any(cause.startswith(unknown) for cause in causes)
    assert verdict.startswith("verdict: FAIL: 2 of 3 promised cases are missing; ")


def test_the_second_pipeline_shows_the_numbers_of_the_first(healthy: Ran, broken: Ran) -> None:
    (first,) = [line for line in healthy.of("pages") if "o_sync" in line and "| write [" in line]
    (second,) = [line for line in broken.of("pages") if "o_sync" in line and "| write [" in line]
    number = first.split(" | ")[2]
    assert float(number) > 0
    # The second pipeline has no numbers of its own. A failed run removes no earlier numbers.
    assert [cell.strip() for cell in second.split("|")[2:]] == [number, ""]


def test_evidence_is_an_artefact_and_the_secret_is_nowhere(checkout: Path, broken: Ran) -> None:
    kept = checkout / ".gitlab-ci-local/artifacts"
    files = [path for path in kept.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"report.html", "history.html", "assay.json", "junit.xml", "promise.json"} <= names
    assert SECRET not in broken.log
    for path in [*files, *(checkout / "results").rglob("*")]:
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
