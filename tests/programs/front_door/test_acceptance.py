"""ci/acceptance.sh: every fault in it makes the run red. docs/command-line.md has the codes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from shell import BEGIN, program, run


@pytest.fixture
def site(checkout: Path) -> Path:
    """A checkout with one site. reframe begins a session; both programs end with exit code 0."""
    (checkout / "site-config/here").mkdir(parents=True)
    (checkout / "site-config/here/reframe.py").touch()
    stage(checkout, reframe=0, report=0)
    return checkout


def stage(checkout: Path, reframe: int, report: int, writes: bool = True) -> None:
    script = f'echo "REFRAME[$*]"; {BEGIN if writes else ":"}; exit {reframe}'
    program(checkout / ".venv/bin", "reframe", script)
    program(checkout / ".venv/bin", "assay", f'echo "ASSAY[$*]"; exit {report}')
    program(checkout / ".venv/bin", "python", f'echo "PYTHON[$*]"; exit {report}')


def accept(site: Path, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
    results = site.parent / "results"  # without the blank
    return run("bash", site / "ci/acceptance.sh", *arguments, ASSAY_RESULTS=results, **variables)


@pytest.mark.parametrize(("reframe", "report"), [(0, 0), (1, 0), (0, 1), (0, 4), (1, 3)])
def test_reframe_or_report_fails_the_run_and_the_report_is_always_written(
    site: Path, reframe: int, report: int
) -> None:
    stage(site, reframe, report)
    done = accept(site, SITE="here")
    assert done.returncode == (report or reframe), done.stdout
    assert "ASSAY[report --session" in done.stdout
    if reframe or report:
        assert done.stdout.splitlines()[-1] == (
            f"acceptance: no PASS (reframe ended with {reframe}, assay report with {report})"
        )


@pytest.mark.parametrize("reframe", [0, 1])
def test_a_run_that_ran_nothing_is_red_and_shows_no_older_one(site: Path, reframe: int) -> None:
    accept(site, SITE="here")
    stage(site, reframe, report=0, writes=False)
    done = accept(site, SITE="here")
    assert done.returncode == 2
    assert "ASSAY[report --junit" in done.stdout, "page and JUnit say that there is no result"
    assert "--session" not in done.stdout
    assert "nothing ran" in done.stdout.splitlines()[-1]


def test_arguments_reach_reframe(site: Path) -> None:
    done = accept(site, "-n", "Osu x", SITE="here", PROFILE="smoke")
    assert "REFRAME[-C site-config/here/reframe.py -c reframe -R --mode smoke -n Osu x -r]" in (
        done.stdout
    )


def test_for_the_paper_only_its_tests_run_and_its_figures_are_drawn(site: Path) -> None:
    documents = {"000": "studies", **{f"00{n}": f"studies/doc00{n}" for n in range(1, 5)}}
    for number, folder in documents.items():
        (site / folder).mkdir(parents=True, exist_ok=True)
        (site / folder / "tests.txt").write_text(f"# of this study\nOf{number}%\nMore\n")
    done = accept(site, SITE="here", PROFILE="smoke", PAPER="000")
    assert "-c reframe -R --mode paper-smoke -x ^(?!Of000%|More) -r]" in done.stdout
    options = f"--figures {site.parent}/results/paper studies/figures.yaml"
    assert re.search(
        rf"PYTHON\[-m ci.wanted --session \S+ --junit \S+/junit.xml {options}\]", done.stdout
    )
    for number, folder in [*documents.items()][1:]:
        done = accept(site, SITE="here", PAPER=number)
        selected = f"--mode paper-full -x ^(?!Of{number}%|More) -r]"
        assert f"-c reframe -c {folder} -R {selected}" in done.stdout
        assert f"{folder}/figures.yaml]" in done.stdout
    done = accept(site, SITE="here", PAPER="all").stdout
    assert f"-x ^(?!{'|'.join(f'Of{number}%|More' for number in documents)}) -r]" in done
    assert f"-c {' -c '.join([*documents.values()][1:])} -R" in done


def test_the_claims_decide_how_a_paper_ends_and_not_what_the_site_promises(site: Path) -> None:
    (site / "studies").mkdir(exist_ok=True)
    (site / "studies/tests.txt").write_text("Osu\n")
    for reframe, claims in ((1, 0), (0, 1), (1, 3)):
        stage(site, reframe, report=claims)
        assert accept(site, SITE="here", PAPER="000").returncode == claims


def test_a_site_without_a_case_of_a_document_has_its_claims_named(site: Path) -> None:
    (site / "studies").mkdir(exist_ok=True)
    (site / "studies/tests.txt").write_text("Osu\n")
    log = "$ASSAY_RESULTS/output/$ASSAY_SESSION"
    for why, code in (("no case is selected; 0 of 9", 0), ("a list cannot be read", 2)):
        script = f'mkdir -p "{log}"; echo "not accepted: {why}" >"{log}/reframe.log"; exit 1'
        program(site / ".venv/bin", "reframe", script)
        done = accept(site, SITE="here", PAPER="000")
        assert done.returncode == code
        assert ("PYTHON[-m ci.wanted --junit" in done.stdout) == (not code)
    program(
        site / ".venv/bin",
        "reframe",
        script.replace("a list cannot be read", "no case is selected"),
    )
    assert accept(site, "-n", "Nothing", SITE="here", PAPER="000").returncode == 2


def test_one_machine_gives_a_document_four_minutes_before_its_last_case(site: Path) -> None:
    (site / "site-config/here").rename(site / "site-config/local")
    (site / "studies").mkdir(exist_ok=True)
    (site / "studies/tests.txt").write_text("Osu\n")
    program(site / ".venv/bin", "reframe", f'echo "LATEST[$ASSAY_DEADLINE]"; {BEGIN}')
    for given, said in (({}, "240s"), ({"ASSAY_DEADLINE": "9s"}, "9s")):
        done = accept(site, SITE="local", PROFILE="smoke", PAPER="000", **given)
        assert f"LATEST[{said}]" in done.stdout
    assert "LATEST[]" in accept(site, SITE="local", PROFILE="full", PAPER="000").stdout
    assert "LATEST[]" in accept(site, SITE="local", PROFILE="smoke").stdout


def test_a_document_that_nobody_covers_is_named_before_anything_runs(site: Path) -> None:
    done = accept(site, SITE="here", PAPER="005")
    assert done.returncode == 64
    assert "no document '005' (DOC, PAPER); there are 000 to 004, and all" in done.stdout
    assert "REFRAME" not in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_interrupted_run_ends_reframe_and_writes_the_page(
    site: Path, number: signal.Signals
) -> None:
    """ReFrame gets SIGTERM once, and has the time to write its report. SIGKILL leaves no page."""
    killed = number == signal.SIGKILL
    results = site.parent / "results"
    program(
        site / ".venv/bin",
        "reframe",
        f"{BEGIN}; trap 'echo TOLD; exit 1' TERM; echo STARTED\n"
        "for _ in $(seq 300); do sleep 0.1; done",
    )
    # With nohup or in a background job, the tests ignore the signal. The child would inherit this.
    before = None if killed else signal.signal(number, signal.SIG_DFL)
    with subprocess.Popen(
        ["bash", str(site / "ci/acceptance.sh")],
        env={**os.environ, "SITE": "here", "ASSAY_RESULTS": str(results)},
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        if not killed:
            signal.signal(number, before)
        assert running.stdout
        assert "STARTED" in [running.stdout.readline().strip() for _ in range(2)]
        running.send_signal(number)
        rest, _ = running.communicate(timeout=60)
    assert rest.count("TOLD") == 1
    assert ("ASSAY[report --session" in rest) != killed
    assert running.returncode == (-number if killed else 1)


def test_results_below_a_path_with_blanks_are_one_line(site: Path) -> None:
    done = run("bash", site / "ci/acceptance.sh", SITE="here")
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert f"'{site}/results'" in done.stdout
    assert "ASSAY_RESULTS=" in done.stdout


def test_an_environment_without_reframe_is_one_line(site: Path) -> None:
    (site / ".venv/bin/reframe").unlink()
    done = accept(site, SITE="here")
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert "Python 3.10 or newer" in done.stdout
