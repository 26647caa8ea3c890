"""Bundles without a signature: the verdicts that they may state."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certificates import DATA, UCX, Open, archive, verify
from report_results import DATA as OLD

from assay.exits import Exit


class Recorded:
    """A copy of the recorded session that can be edited."""

    def __init__(self, folder: Path, data: Path = DATA) -> None:
        self.folder = folder
        shutil.copytree(data, folder)
        self.report = folder / "results/reports/run-report-0.json"
        self.output = folder / "certificate.zip"

    def archive(self, session: Path | None = None) -> int:
        return archive(
            self.output, session=session or self.report, folder=self.folder / "site-config"
        )

    def file(self, name: str) -> Path:
        (found,) = (path for path in self.folder.rglob("*") if str(path).endswith(name))
        return found

    def edit(self, name: str, change: Callable[[Any], Any]) -> None:
        path = self.file(name)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.file(name)
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def stated(self) -> Any:
        return json.loads(Open(self.output).members["statement.json"])


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path / "data")


def judged_from(said: Any) -> dict[str, int]:
    """How many metrics were confirmed how."""
    return Counter(m["judged_from"] for case in said["cases"] for m in case["metrics"].values())


def test_the_recorded_session_is_archived_and_verified(recorded, capsys):
    assert recorded.archive() == 0
    assert "PASS, UNSIGNED" in capsys.readouterr().out
    said = recorded.stated()
    assert said["verdict"] == "PASS"
    assert judged_from(said)["outputs"] == 1
    (suite,) = said["suite"]
    assert len(suite["commit"]) == 40
    assert said["nodes"] == ["vm"]
    assert any("this stack has no" in case["why"] for case in said["cases"])
    assert "site/site-config/bench/references.yaml" in Open(recorded.output).members
    assert verify(recorded.output) == Exit.NOT_VALID
    assert "refused: UNSIGNED: nobody vouches for it" in capsys.readouterr().out
    assert verify(recorded.output, "--any-signer") == 0
    assert "the same verdict follows: PASS" in capsys.readouterr().out


def test_the_same_session_gives_the_same_files(recorded):
    recorded.archive()
    first = Open(recorded.output).members
    recorded.archive()
    second = Open(recorded.output).members
    assert {n for n in first if first[n] != second[n]} <= {"statement.json"}


def test_nothing_else_of_the_session_is_read(recorded, monkeypatch, tmp_path):
    recorded.archive()
    shutil.rmtree(recorded.folder / "results")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert verify(recorded.output, "--any-signer") == 0


def doubted(recorded: Recorded) -> None:
    recorded.edit("NodeHealth/assay.json", lambda record: record.update(doubts=["X=1 was set"]))


def changed(recorded: Recorded) -> None:
    recorded.edit("session.json", lambda plan: plan["promise"].update(changed=["-J nodelist=n1"]))


def partial(recorded: Recorded) -> None:
    recorded.edit("session.json", lambda plan: plan["promise"].update(narrowed=["-n Hpl"]))


def interrupted(recorded: Recorded) -> None:
    def without_one(report: Any) -> None:
        cases = report["runs"][0]["testcases"]
        cases.remove(next(case for case in cases if case["name"] == "SuiteLoads"))
        report["session_info"]["num_cases"] -= 1

    recorded.edit("run-report-0.json", without_one)


def dirty(recorded: Recorded) -> None:
    recorded.edit(
        "NodeHealth/assay.json",
        lambda record: record["provenance"]["suite"].update(commit="0" * 40 + "-dirty"),
    )


def of_no_commit(recorded: Recorded) -> None:
    recorded.edit(
        "NodeHealth/assay.json", lambda record: record["provenance"]["suite"].update(commit=None)
    )


def without_provenance(recorded: Recorded) -> None:
    recorded.edit("NodeHealth/assay.json", lambda record: record["provenance"].pop("suite"))


def without_plan(recorded: Recorded) -> None:
    recorded.file("/session.json").unlink()


def failed(recorded: Recorded) -> None:
    def fail(report: Any) -> None:
        entry = next(c for c in report["runs"][0]["testcases"] if c["name"] == "SuiteLoads")
        entry.update(result="fail", fail_reason="it failed")

    recorded.edit("run-report-0.json", fail)


@pytest.mark.parametrize(
    ("change", "verdict", "cause"),
    [
        (partial, "PARTIAL", "-n Hpl"),
        (doubted, "PARTIAL", "X=1 was set"),
        (changed, "PARTIAL", "-J nodelist=n1 is not in the plan of the site"),
        (interrupted, "INTERRUPTED", "finished"),
        (dirty, "PROVISIONAL", "changes that are in no commit"),
        (of_no_commit, "PROVISIONAL", "the commit of the suite is not known"),
        (without_provenance, "PROVISIONAL", "of which commit"),
        (without_plan, "PARTIAL", "nothing says which cases must run"),
        (failed, "FAIL", "1 case failed"),
    ],
)
def test_a_run_that_is_no_pass_is_stated_as_what_it_is(recorded, change, verdict, cause, capsys):
    change(recorded)
    assert recorded.archive() == 0
    said = recorded.stated()
    assert said["verdict"] == verdict
    assert any(cause in line for line in said["causes"])
    capsys.readouterr()
    assert verify(recorded.output, "--any-signer") == Exit[verdict]
    assert f"the same verdict follows: {verdict}" in capsys.readouterr().out


def test_a_session_without_a_run_report_is_interrupted(recorded):
    (folder,) = (recorded.folder / "results/output").iterdir()
    recorded.report.unlink()
    assert recorded.archive(folder) == 0
    assert recorded.stated()["verdict"] == "FAIL"
    assert any("the run report is lost" in cause for cause in recorded.stated()["causes"])
    assert verify(recorded.output, "--any-signer") == Exit.FAIL


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("bench/references.yaml", "lower: -0.05", "lower: -0.04"), "performance: was judged by"),
        (("Hpl_retry5/rfm_job.out", "WR", "WC"), "does not give the rows of its record"),
    ],
)
def test_what_does_not_follow_is_named_and_refused_when_it_is_checked(
    recorded, capsys, change, said
):
    recorded.replace(*change)
    assert recorded.archive() == 0
    err = capsys.readouterr().err
    assert "this verdict does not follow" in err
    assert said in err
    assert verify(recorded.output, "--any-signer") == Exit.NOT_VALID
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("bench/references.yaml", "references: [", "bench/references.yaml: line"),
        ("run-report-0.json", "{", "not JSON"),
    ],
)
def test_bad_input_is_one_line_that_names_the_file(recorded, capsys, file, content, said):
    recorded.file(file).write_text(content)
    assert recorded.archive() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not recorded.output.exists()


def test_a_site_that_is_not_there(recorded, capsys):
    shutil.rmtree(recorded.folder / "site-config")
    assert recorded.archive() == 2
    assert "bench/references.yaml: no such file; name the folder" in capsys.readouterr().err


def test_nowhere_to_write(recorded, capsys):
    recorded.output = recorded.folder / "nowhere" / "certificate.zip"
    assert recorded.archive() == 2
    assert "name another place with --output FILE" in capsys.readouterr().err


def test_a_record_of_an_earlier_run_is_named(recorded, capsys):
    """Where it was measured its age counts, which a bundle cannot show."""
    os.utime(recorded.file("Hpl_retry5/assay.json"), (0, 0))
    assert recorded.archive() == 0
    assert "only where it was measured" in capsys.readouterr().err


def test_a_session_of_an_older_suite_is_compared_with_its_site(capsys, tmp_path):
    """The session of tests/data/report was judged by other references, and 43 cases are cut off."""
    site = Path(__file__).parents[4] / "site-config"
    report = OLD / "reports/run-report-0.json"
    assert archive(tmp_path / "old.zip", session=report, folder=site) == 0
    err = capsys.readouterr().err
    assert "hpl_per_dgemm: PASS, and the site does not judge it" in err
    assert "says 59 cases, and lists 16" in err


def test_a_file_that_is_no_bundle(tmp_path, capsys):
    path = tmp_path / "text"
    path.write_text("text")
    assert verify(path) == Exit.NOT_VALID
    assert "refused: the file is truncated, or is no bundle" in capsys.readouterr().out
    assert verify(tmp_path / "nothing") == 2
    assert "name the file of a bundle" in capsys.readouterr().err


# --- a ratio of two cases -------------------------------------------------------------------------


@pytest.fixture
def ratio(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path / "data", UCX)


def test_a_ratio_follows_from_the_outputs_of_both_cases(ratio, capsys):
    assert ratio.archive() == 0
    (metrics,) = (c["metrics"] for c in ratio.stated()["cases"] if "Ucx" in c["name"])
    assert metrics["bandwidth_per_memory_copy"]["judged_from"] == "outputs"
    assert verify(ratio.output, "--any-signer") == Exit.INCONCLUSIVE


def rescaled(record: Any) -> None:
    """Another memory copy, told consistently in its own record."""
    record["metrics"]["bandwidth"].update(value=50.0, samples=[50.0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rescaled, "MemoryCopy @.*bandwidth: the outputs give 99.*, the record says 50"),
        (
            lambda record: record["metrics"]["bandwidth"].pop("origin"),
            None,  # the metric then rests on the record, and so does the ratio
        ),
        (
            lambda record: record["metrics"]["bandwidth"].update(
                origin=[["metric", "MemoryCopy", "bench:here+system", "bandwidth", 99.3]]
            ),
            "bandwidth of MemoryCopy is computed from itself",
        ),
    ],
)
def test_a_ratio_does_not_follow_from_another_memory_copy(ratio, capsys, change, said):
    ratio.edit("MemoryCopy/assay.json", change)
    assert ratio.archive() == 0
    if said:
        assert re.search(said, capsys.readouterr().err)
    else:
        assert judged_from(ratio.stated()) == {
            "its record does not say how it was computed": 2,
            "outputs": 1,
        }


# --- the path of the bytes ------------------------------------------------------------------------


def test_the_path_of_ucx_is_proven_again(ratio, capsys):
    """A record of today also says of which sizes the path was proven."""
    ratio.edit("UcxPerftest_5b43f4e4/assay.json", lambda it: it["proof"].update(sizes=[1 << 20]))
    assert ratio.archive() == 0
    capsys.readouterr()
    assert verify(ratio.output, "--any-signer") == Exit.INCONCLUSIVE
    assert "path (1) follow from the files" in capsys.readouterr().out
    ratio.replace("ucx.vm.17721.log", "posix/memory", "tcp/eth0")
    assert ratio.archive() == 0
    said = capsys.readouterr().err
    assert re.search("this verdict does not follow: .*UcxPerftest_5b43f4e4: .*tcp/eth0", said), said
