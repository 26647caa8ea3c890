"""The package beside the tests of a site that has ReFrame: what it carries, what a run is worth."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import shell
from bench import HELLO, OWN, REFRAME, ROOT, Bench, Recorded, run_reframe
from node_form import AMD, stream

from assay import cli
from assay.reframe_compat import TRIED

pytestmark = pytest.mark.slow

#: A configuration that knows nothing of Assay but some of its words.
SETTINGS = """\
site_configuration = {
    "systems": [{
        "name": "theirs",
        "hostnames": [".*"],
        "partitions": [{
            "name": "batch",
            "scheduler": "local",
            "launcher": "local",
            "environs": ["gnu"],
            "features": ["intra-node"],
        }],
    }],
    "environments": [{"name": "gnu", "features": ["mpi"]}],
}
"""

OURS = (
    OWN
    + """\
@rfm.simple_test
class Ours(Own):
    declares = {"rate": "MB/s"}

    def measure(self, parsed):
        return {"rate": Quantity(100.0, "MB/s")}
"""
)

THEIRS = """\
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, sanity_function


class Theirs(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"

    @sanity_function
    def ended(self):
        return sn.assert_true(True)


@rfm.simple_test
class TheirGood(Theirs):
    pass


@rfm.simple_test
class TheirBad(Theirs):
    @sanity_function
    def ended(self):
        return sn.assert_true(False, "too slow for us")


@rfm.simple_test
class TheirSkipped(Theirs):
    @run_after("setup")
    def leave(self):
        self.skip("not on Thursdays")
"""

REFERENCES = """\
references:
  - for: {partition: batch, system: SYSTEM, test: Ours}
    metrics: {rate: {value: 100, unit: MB/s, lower: -0.1, upper: 0.1}}
    source: a test of the suite
recorded:
  - for: {partition: "*"}
    why: a test of the suite
"""

LATENCY = Recorded.load("osu-latency-posix")

Report = Callable[[], tuple[int, list[str]]]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder outside of any repository with a configuration and tests."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "settings.py").write_text(SETTINGS)
    (folder / "checks").mkdir()
    (folder / "checks" / "ours.py").write_text(OURS)
    (folder / "checks" / "theirs.py").write_text(THEIRS)
    return folder


@pytest.fixture
def report(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Report:
    """Reports on the newest run in the folder of the site, without naming a place for the page."""

    def made() -> tuple[int, list[str]]:
        monkeypatch.chdir(site)
        monkeypatch.delenv("ASSAY_RESULTS", raising=False)
        newest = max(site.glob("reports/*.json"), key=lambda path: path.stat().st_mtime)
        code = cli.main(["report", "--session", str(newest)])
        return code, capsys.readouterr().out.splitlines()

    return made


def places(site: Path) -> dict[str, str]:
    """Variables that keep what a run writes in the folder of the site."""
    report = site / "reports/run-report-{sessionid}.json"
    return {"RFM_PREFIX": str(site), "RFM_REPORT_FILE": str(report)}


def reframe(site: Path, *arguments: str) -> int:
    """Runs ReFrame as the site does; its results stay in the folder of the site."""
    common = ("-c", str(site / "checks"), "-r")
    return run_reframe(site / "settings.py", site, *common, *arguments, **places(site)).returncode


def test_a_run_that_nothing_planned_is_never_a_pass(site: Path, report: Report) -> None:
    (site / "references.yaml").write_text(REFERENCES.replace("SYSTEM", "theirs"))
    reframe(site, "-n", "Ours")
    code, lines = report()
    assert any("1 PASS, 0 FAIL" in line for line in lines), lines
    assert lines[-2].startswith("verdict: PARTIAL: nothing says which cases must run")
    assert (code, lines[-1]) == (4, "report: report.html")
    assert (site / "report.html").is_file()


def test_references_of_another_system_in_the_folder_judge_nothing(
    site: Path, report: Report
) -> None:
    (site / "references.yaml").write_text(REFERENCES.replace("SYSTEM", "another"))
    reframe(site, "-n", "Ours")
    assert any("0 PASS, 0 FAIL, 0 INCONCLUSIVE, 1 RECORDED" in line for line in report()[1])


def test_without_references_all_is_recorded_with_that_reason(site: Path, report: Report) -> None:
    assert reframe(site, "-n", "Ours") == 0
    (record,) = site.glob("output/**/Ours/assay.json")
    said = json.loads(record.read_text())
    assert said["verdict"] == "RECORDED"
    assert said["metrics"]["rate"]["why"].startswith(f"there is no {site / 'references.yaml'}")
    assert said["doubts"] == [f"there is no {site / 'references.yaml'}: write it"]
    code, lines = report()
    assert (code, lines[-2][:16]) == (4, "verdict: PARTIAL")


def test_other_tests_are_in_no_verdict(site: Path, report: Report) -> None:
    assert reframe(site) == 1
    code, lines = report()
    assert code == 4
    assert not any("FAIL Their" in line for line in lines)
    assert any("1 of 1 case ran" in line for line in lines)
    other = [line for line in lines if line.startswith("not of Assay, in no verdict: ")]
    assert len(other) == 3
    assert any("fail: too slow for us in ReFrame: TheirBad" in line for line in other)
    assert any(": pass in ReFrame: TheirGood" in line for line in other)
    page = (site / "report.html").read_text()
    assert "Not of Assay" in page
    assert "TheirBad" in page


def test_other_tests_in_a_planned_run_are_in_no_verdict(bench: Bench) -> None:
    """They are not what the site promises, and may skip and fail as they like."""
    bench.ready()
    run = bench.run(path=bench.check("theirs", THEIRS))
    assert "skip not allowed" not in run.output
    assert re.search(r"^FAIL +TheirBad @bench:\S+: .*too slow for us \[", run.output, re.M)
    (plan,) = bench.results.glob("output/*/session.json")
    assert {case["foreign"] for case in json.loads(plan.read_text())["cases"]} == {True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_RESULTS", str(bench.results))
        assert cli.main(["report"]) == 1  # no test of ours ran


def test_expect_says_that_a_configuration_promises_nothing(
    site: Path, capsys: pytest.CaptureFixture
) -> None:
    (site / "settings.py").rename(site / "reframe.py")
    arguments = ["--site", "theirs", "--folder", str(site.parent), "--check"]
    assert cli.main(["expect", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("assay expect: ")
    assert "has no words of Assay" in said
    assert len(said.splitlines()) == 1


# --- the wheel ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the wheel, as pip would unpack them."""
    copy, library = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("library")
    listed = shell.run("git", "ls-files", "-z", "src", "reframe", "site-config", cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    names = ("setup.py", "pyproject.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT")
    names += ("requirements/run.lock", ".git_archival.txt")
    for name in (*names, *filter(None, listed.stdout.split("\0"))):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    build = ("setup.py", "--quiet", "build_py", "--build-lib", library)
    done = shell.run(sys.executable, *build, cwd=copy)
    assert done.returncode == 0, done.stdout
    return library


def test_the_wheel_carries_the_tests_and_the_shared_files(installed: Path, tmp_path: Path) -> None:
    asks = (
        "from pathlib import Path; from assay import cli, files; cli.main(['tests']); "
        "print(files.of_all_sites(Path('/a/b'), 'vocabulary.yaml'))"
    )
    done = shell.run(sys.executable, "-c", asks, cwd=tmp_path, PYTHONPATH=installed)
    tests, vocabulary = map(Path, done.stdout.split())
    assert tests.is_relative_to(installed) and vocabulary.is_relative_to(installed)
    assert vocabulary.is_file()

    def names(folder: Path) -> set[str]:
        found = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
        return {str(path.relative_to(folder)) for path in found if path.is_file()}

    assert names(tests) == names(ROOT / "reframe")
    assert "witness.sh" in names(tests.parents[1] / "node")
    assert "rank-gpu.sh" in names(tests.parents[1] / "gpu/node")


def test_the_wheel_answers_an_output_where_nothing_else_is(installed: Path, tmp_path: Path) -> None:
    """Parts of the catalogue, floors and the texts of answers are in the wheel."""
    (tmp_path / "sent.txt").write_text(AMD + stream(115e3))
    asks = "import sys; from assay import cli; sys.exit(cli.main(['judge', 'sent.txt']))"
    done = shell.run(sys.executable, "-c", asks, cwd=tmp_path, PYTHONPATH=installed)
    assert done.stdout.startswith("FAIL: sent.txt: stream 5.10 measured 115000 MB/s")
    assert "28% of the memory of 2 epyc-milan" in done.stdout
    (tmp_path / "sent.txt").write_text("Tested 1 GPUs:\n\tGPU 0: FAULTY\n")
    done = shell.run(sys.executable, "-c", asks, cwd=tmp_path, PYTHONPATH=installed)
    assert done.stdout.startswith("not read: sent.txt: an output of gpu-burn")
    assert [path.name for path in tmp_path.iterdir()] == ["sent.txt"]


def of_version(version: str, *more: str) -> str:
    """PYTHONPATH for a version of ReFrame; skips the test if it is not here."""
    if version == shell.run(REFRAME, "--version").stdout.partition("+")[0].strip():
        return os.pathsep.join(more)
    name = f"reframe-{version}"
    if not (ROOT / ".cache" / name).is_dir():
        mend = f"pip install --no-deps --target .cache/{name} reframe-hpc=={version}"
        pytest.skip(f"needs ReFrame {version} in .cache: {mend}")
    return os.pathsep.join([str(ROOT / ".cache" / name), *more])


@pytest.mark.parametrize("version", TRIED)
def test_what_the_suite_replaces_in_reframe_works_in_each_version(
    version: str, bench: Bench
) -> None:
    path = of_version(version, str(ROOT / "src"))
    checks = bench.check("own", OWN + "@rfm.simple_test\nclass Mine(Own):\n    pass\n")
    run = bench.ready().run("-v", path=checks, PYTHONPATH=path)
    assert run.returncode == 0, run.output
    assert f"version:           {version}" in run.output
    assert run.case("Mine").record["verdict"] == "RECORDED"
    assert "PARTIAL: " in run.output


@pytest.mark.parametrize("version", TRIED)
def test_the_wheel_runs_with_each_version_of_reframe(
    version: str, installed: Path, site: Path, report: Report
) -> None:
    path = of_version(version, str(installed))
    tests = str(installed / "assay/suite/reframe")
    call = ("-c", tests, "-R", "-n", "SuiteLoads|NodeHealth")
    for do in ("--dry-run", "-r"):
        run = run_reframe(site / "settings.py", site, *call, do, PYTHONPATH=path, **places(site))
        assert "skipping test file" not in run.output, run.output[-3000:]
        assert re.search(rf"version: +{re.escape(version)}\n", run.output), run.output[:500]
        assert re.search(r" OK \] .* SuiteLoads ", run.output), run.output[-3000:]
    assert run.case("NodeHealth").record["verdict"] == "RECORDED"
    assert report()[0] == 4


# --- tests of a site on our base classes ----------------------------------------------------------


def test_the_test_of_the_page_demands_evidence(bench: Bench) -> None:
    page = (ROOT / "docs/my-benchmark.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```python\n# mybench/mpi.py\n(.*?)^```$", page, re.M | re.S)
    torn = LATENCY.but(stdout=LATENCY.stdout.replace("4194304 ", ""))
    # The recorded program was asked to use UCX.
    bench.partition(launcher="replay", env_vars=[["OMPI_MCA_pml", "ucx"]])
    bench.replays("osu_latency", ["osu"], {"good": LATENCY, "torn": torn})
    run = bench.run(path=bench.check("mpi", shown))
    good = run.case("Latency", "good")
    assert good.record.get("verdict") == "RECORDED", good
    assert run.case("Latency", "torn").result == "fail"


def test_a_test_that_replaces_the_evidence_is_refused(bench: Bench) -> None:
    python = sys.executable
    source = HELLO.format(python=python) + (
        "\n    from reframe.core.builtins import sanity_function\n"
        "\n    @sanity_function\n    def greeted(self):\n        return True\n"
    )
    run = bench.ready().run(path=bench.check("hello", source))
    assert not run.cases
    said = [line for line in run.output.splitlines() if "@sanity_function greeted()" in line]
    line = said[0]
    assert "not accepted: no case is selected; not loaded: the test is broken: Hello: " in said[-1]
    assert "Hello: " in line
    assert "write read()" in line
