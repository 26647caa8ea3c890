"""A run of ReFrame alone is red if a promised case is missing; a part of a run is PARTIAL."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import OWN, ROOT, Bench, Run

from assay.cli import main
from assay.describe import ask, detect, expect, machine
from assay.prove.transports import opened_transports

pytestmark = pytest.mark.slow

SUITE = """\
@rfm.simple_test
class Sweep(Own):
    size = parameter([1, 2, 3])


@rfm.simple_test
class Once(Own):
    valid_systems = ["+storage"]

    @run_after("setup")
    def small(self):
        self.leave_out("not-here", self.current_environ.name == "poor", "no once")
"""

PROMISE = """\
nothing_judged: allowed
partitions:
  here: {stacks: [any], words: [intra-node, storage]}
stacks: {any: [mpi]}
"""


@pytest.fixture
def promised(bench: Bench) -> Bench:
    """A site with a suite of its own below ``reframe/``, and its promise."""
    bench.ready()
    bench.partitions[0]["features"] = ["intra-node", "storage"]
    suite = bench.folder / "reframe"
    suite.mkdir()
    (suite / "own.py").write_text(OWN + SUITE)
    lines = [f"{one}\n" for one in expect.listed(suite)]
    assert len(lines) == 4
    (suite / "cases.txt").write_text("".join(lines))
    bench.site.joinpath("promise.yaml").write_text(PROMISE)
    return bench


def whole(bench: Bench, *arguments: str) -> Run:
    return bench.run(*arguments, path=bench.folder / "reframe")


def verdict(bench: Bench, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and last lines of the report."""
    page = bench.folder / "page.html"
    session = str((bench.results / "latest").resolve())
    code = main(["report", "--session", session, "--output", str(page)])
    return code, capsys.readouterr().out


def test_a_complete_run_is_accepted(promised: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    run = whole(promised)
    assert run.returncode == 0, run.output
    code, said = verdict(promised, capsys)
    assert code == 0
    assert "judged: 0 of 4 cases that ran; the site promises 4 cases" in said
    assert "verdict: RECORDED" in said


def test_what_is_missing_is_red_in_reframe_and_in_the_report(
    promised: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The partition lost a word, and with it a case; the sweep lost a value."""
    promised.partitions[0]["features"] = ["intra-node"]
    own = promised.folder / "reframe/own.py"
    own.write_text(own.read_text().replace("[1, 2, 3]", "[1, 3]"))
    run = whole(promised)
    assert run.returncode == 1
    said = (
        "promise.yaml: here has not the promised word storage; "
        "1 of 3 promised cases are missing: Sweep on here+any: 2 of 3, without Sweep size=2"
    )
    assert f"not accepted: {said}" in run.output
    code, report = verdict(promised, capsys)
    assert code == 1
    assert f"verdict: FAIL: {said}" in report


def test_without_any_case_the_run_is_red(promised: Bench) -> None:
    (promised.folder / "reframe/own.py").unlink()
    run = whole(promised)
    assert run.returncode == 1
    assert "4 of 4 promised cases are missing" in run.output


def test_a_selection_is_partial_and_not_red(
    promised: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whole(promised, "-n", "Sweep")
    assert run.returncode == 0, run.output
    said = "3 of 4 promised cases selected by -n Sweep"
    assert f"PARTIAL: {said}" in run.output
    code, report = verdict(promised, capsys)
    assert (code, f"verdict: PARTIAL: {said}" in report) == (4, True)


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (("-J", "nodelist=node01"), {}, "-J nodelist=node01"),
        (("-S", "num_tasks_per_core=2"), {}, "-S num_tasks_per_core=2"),
        (("-S", "local=1"), {}, "-S local=1"),
        (("--mode=full", "-S", "profile=smoke"), {}, "-S profile=smoke"),
        (("-M", "a: b"), {}, "-M a: b"),
        ((), {"RFM_PURGE_ENVIRONMENT": "0"}, "RFM_PURGE_ENVIRONMENT=0"),
    ],
)
def test_an_option_that_is_not_in_the_plan_of_the_site_is_partial(
    promised: Bench,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    variables: dict[str, str],
    said: str,
) -> None:
    run = promised.run(*words, path=promised.folder / "reframe", **variables)
    assert run.returncode == 0, run.output
    assert f"PARTIAL: {said} is not in the plan of the site" in run.output
    code, report = verdict(promised, capsys)
    assert (code, f"verdict: PARTIAL: {said} is not in the plan" in report) == (4, True)


def test_an_option_that_only_prints_or_keeps_files_is_no_difference(
    promised: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = promised.folder / "elsewhere"
    run = whole(promised, "-v", "--output", str(elsewhere), "-S", "least_launches=2")
    assert run.returncode == 0, run.output
    assert "PARTIAL" not in run.output
    report = max(promised.results.glob("reports/run-report-*.json"))
    code = main(["report", "--session", str(report), "--output", str(promised.folder / "p.html")])
    assert (code, "the site promises 4 cases" in capsys.readouterr().out) == (0, True)


def test_a_pattern_that_matches_nothing_is_red(promised: Bench) -> None:
    run = whole(promised, "-n", "Nope")
    assert run.returncode == 1
    assert "no case is selected; 0 of 4 promised cases selected by -n Nope" in run.output


def test_a_skip_that_is_not_listed_is_red(
    promised: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    promised.environments[0]["name"] = "poor"
    poor = PROMISE.replace("any", "poor")
    path = promised.site / "promise.yaml"
    path.write_text(poor)
    run = whole(promised)
    assert run.returncode == 1
    assert "skip not allowed: not-here: no once: 1 of Once" in run.output
    code, said = verdict(promised, capsys)
    assert (code, "skip not allowed: not-here: no once" in said) == (1, True)
    path.write_text(f"{poor}may_skip: {{not-here: [Once poor]}}\n")
    assert whole(promised).returncode == 0


def test_a_stack_that_vanished_is_red_in_reframe_and_in_the_report(
    promised: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    path = promised.site / "promise.yaml"
    path.write_text(PROMISE.replace("[any]", "[any, gone]", 1))
    run = whole(promised)
    assert run.returncode == 1
    assert "not accepted: promise.yaml: here has not the promised stack gone" in run.output
    code, said = verdict(promised, capsys)
    assert (code, "verdict: FAIL: promise.yaml: here has not" in said) == (1, True)


def test_without_a_promise_a_complete_run_is_red(promised: Bench) -> None:
    (promised.site / "promise.yaml").unlink()
    run = whole(promised)
    assert run.returncode == 1
    assert "nothing says which cases must run; type assay expect --site bench" in run.output
    assert whole(promised, "-n", "Once").returncode == 0


def test_a_calibration_is_not_accepted(promised: Bench) -> None:
    run = whole(promised, "-S", "purpose=calibration")
    assert run.returncode == 1
    assert "the run calibrates: it measures and judges nothing" in run.output


def test_a_crash_is_no_skip_whatever_it_leaves(bench: Bench) -> None:
    bench.ready()
    folder = bench.program("any", "crash", "#!/bin/sh\necho late >assay.skipped\nexit 139\n")
    bench.environments[0]["env_vars"] = [["PATH", f"{folder}:{os.environ['PATH']}"]]
    crash = '@rfm.simple_test\nclass Crashed(Own):\n    executable = "crash"\n'
    bench.own(crash).says("Crashed", "ended with exit code 139")


@pytest.mark.parametrize(
    ("script", "said"),
    [("exit 139", "ended with exit code 139"), ("kill -SEGV $$", "ended with exit code -11")],
)
def test_a_ucx_info_that_crashes_hides_no_transport(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ucx_info").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "ucx_info").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(ask, "ended", {})
    assert opened_transports(ask.output("ucx_info", "-d")) == []
    assert f"ucx_info -d {said}: what UCX has is not known" in machine.failed_probes()


def test_a_program_whose_package_is_there_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dpkg-query").write_text("#!/bin/sh\necho ucx-utils installed\necho hpcc unknown\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/nonexistent:{Path('/bin/sh').parent}")
    monkeypatch.setattr(detect, "programs", lambda *_: {"mpi": "mpirun"})
    monkeypatch.setattr(ask, "ended", {})
    found = machine.failed_probes()
    assert "the package ucx-utils is installed, but ucx_info is not on PATH" in found[0]
    assert not any("hpcc" in line for line in found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda b: b.environments[0].update(features=[]),
            "stack any is left out: its features name no",
        ),
        (lambda b: b.stack("lone", ["mpi"]), "'lone': is in environs of no partition"),
    ],
    ids=["without features", "tied to no partition"],
)
def test_a_stack_that_nothing_selects_is_refused(
    promised: Bench, change: Callable[[Bench], None], said: str
) -> None:
    promised.write()
    promised.partitions[0]["environs"] = ["any"]
    change(promised)
    run = whole(promised)
    assert run.returncode == 1
    assert said in run.output


def test_a_word_that_no_site_has_is_red(bench: Bench) -> None:
    suite = bench.folder / "suite"
    suite.mkdir()
    source = (ROOT / "reframe/node/suite.py").read_text()
    (suite / "suite.py").write_text(source)
    typed = '@rfm.simple_test\nclass Typed(Own):\n    valid_systems = ["+storge"]\n'
    (suite / "typed.py").write_text(OWN + typed)
    bench.ready()
    said = "typed.py: Typed valid_systems: +storge is not a word of any site: it selects nothing"
    bench.run("-n", "SuiteLoads", path=suite).says("SuiteLoads", said)


UNUSED = """\
@rfm.simple_test
class Health(Own):
    def read(self):
        port = {"state": "4: ACTIVE", "link_layer": "InfiniBand", "rate": "100 Gb/sec (4X EDR)"}
        network = {"infiniband": {"mlx5_0:1": port}}
        self.record.provenance = {"host": "node01", "network": network}
        return super().read()
"""


def test_a_link_that_no_case_used_is_said_by_the_run_and_by_the_report(
    promised: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = promised.folder / "reframe"
    (suite / "own.py").write_text(OWN + UNUSED)
    (suite / "cases.txt").write_text("".join(f"{one}\n" for one in expect.listed(suite)))
    promised.site.joinpath("promise.yaml").write_text(PROMISE)
    run = whole(promised)
    assert "PARTIAL: no case moved bytes over mlx5_0:1 (InfiniBand" in run.output
    code, said = verdict(promised, capsys)
    assert code == 4
    assert "verdict: PARTIAL: no case moved bytes over mlx5_0:1 (InfiniBand" in said
    excuse = 'not_measured: {"mlx5_*": it leads to the storage}\n'
    promised.site.joinpath("promise.yaml").write_text(PROMISE + excuse)
    assert "mlx5_0" not in whole(promised).output
    assert verdict(promised, capsys)[0] == 0
