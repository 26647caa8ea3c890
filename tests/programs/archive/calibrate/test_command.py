"""`assay calibrate` on a real site: it measures, writes references, and refuses bad input."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import shell
import yaml
from bench import HPL, ROOT, SITE, Recorded
from replays import HEALTHY, Turns, scaled

from assay.store import session

pytestmark = pytest.mark.slow

ASSAY = Path(sys.executable).with_name("assay")

#: Seven launches of a healthy machine.
SEVEN = [scaled(factor) for factor in (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.005)]


class Site:
    """A bench that runs HPL, and the command `assay calibrate` on it."""

    def __init__(self, bench):
        self.bench = bench
        bench.strict = True
        bench.partition(launcher="replay")
        self.xhpl = Turns(bench, SEVEN)
        self.offer("compute/hpl.py")
        bench.write()
        self.file = bench.site / "calibrated.yaml"

    def offer(self, test):
        """Puts a file of tests where the command looks for them: each start loads all of them."""
        file = self.bench.folder / "reframe" / test
        file.parent.mkdir(parents=True)
        file.symlink_to(ROOT / "reframe" / test)

    def calibrate(self, *arguments, runs=None, launches=7, case="Hpl", of=("--site", "bench")):
        """Returns exit code and output of `assay calibrate`."""
        if runs is not None:
            self.xhpl.replay(runs)
        home = self.bench.folder / "home"
        home.mkdir(exist_ok=True)
        done = shell.run(
            *(ASSAY, "calibrate", *of, "--profile", "smoke"),
            *("--folder", self.bench.site.parent),
            *("--without-peak", "a recorded run has no hardware"),
            *([] if "--from" in arguments else ["--launches", launches]),
            *arguments,
            *([] if "--from" in arguments else ["--", "-n", case]),
            cwd=self.bench.folder,
            **{**os.environ, "ASSAY_RESULTS": self.bench.results, "HOME": home},
            RFM_PERFLOG_DIR=home,
        )
        return done.returncode, done.stdout

    def report(self):
        return session.newest(self.bench.results)

    def accepted(self, runs):
        """Accepts a replay of `runs`; returns exit code, verdict and reason."""
        self.xhpl.replay(runs)
        run = self.bench.run("-n", "Hpl", "--mode", "smoke", path="reframe/compute/hpl.py")
        (case,) = session.load_session(self.report()).cases
        return run.returncode, case.verdict.value, case.why


@pytest.fixture
def site(bench):
    return Site(bench)


def test_calibrate_then_accept(site):
    """And a run for acceptance does not calibrate."""
    code, said = site.calibrate()
    assert code == 0, said
    assert site.xhpl.started == 7
    assert "new: 33.957 GFLOP/s" in said
    (entry,) = yaml.safe_load(site.file.read_text())["references"]
    assert entry["for"] == {"partition": "here", "environ": "turns", "profile": "smoke",
                            "test": "Hpl"}  # fmt: skip
    metric = entry["metrics"]["performance"]
    assert metric["value"] == pytest.approx(HEALTHY, rel=1e-4)
    # 8/6 of the distance to the lowest launch is less than the minimum tolerance of a rate.
    assert (metric["lower"], metric["upper"]) == (-0.05, 0.5)
    assert entry["source"]["n"] == 7
    assert os.uname().nodename.split(".")[0] in entry["source"]["where"]
    rules = "{extends: relaxed, rules: {line-length: disable}}"
    lint = shell.run(sys.executable, "-m", "yamllint", "-d", rules, site.file)
    assert lint.returncode == 0, lint.stdout

    assert site.accepted([HPL])[:2] == (0, "PASS")
    before = site.file.read_text()
    code, said = site.calibrate("--from", str(site.report()))
    assert code == 1
    assert "was run for acceptance" in said
    assert site.file.read_text() == before
    code, verdict, why = site.accepted([scaled(0.9)])
    assert (code, verdict) == (1, "FAIL")
    assert "below the lower bound" in why


@pytest.mark.long
def test_a_site_beside_a_configuration_of_its_own_is_calibrated(site):
    folder = site.bench.folder / "theirs"
    folder.mkdir()
    head, _, _ = SITE.partition("site_configuration")
    (folder / "settings.py").write_text(f"{head}site_configuration = spec\n")
    spec = json.loads((site.bench.site / "site.json").read_text())
    spec["systems"][0]["partitions"][0]["features"] = []
    (folder / "site.json").write_text(json.dumps(spec))
    (folder / "assay_settings.py").write_text(
        "from assay import sites\n\nsite_configuration = sites.beside('settings.py')\n"
    )
    extras = {"memory_bytes": 2**33, "memory_fraction": 0.02}
    place = {"of": "here", "features": ["intra-node"], "extras": extras}
    words = {
        "system": "bench",
        "places": {"node": place},
        "stacks": {"turns": {"features": ["mpi", "hpl"]}},
    }
    (folder / "assay.yaml").write_text(yaml.safe_dump(words))
    code, said = site.calibrate(of=("-C", folder / "assay_settings.py"))
    assert code == 0, said
    (entry,) = yaml.safe_load((folder / "calibrated.yaml").read_text())["references"]
    assert (entry["for"]["partition"], entry["source"]["n"]) == ("node", 7)


def test_a_deleted_calibration_is_found_in_git_or_the_command_says_that_there_is_none(site):
    code, said = site.calibrate()
    assert code == 0
    assert "no earlier calibration was found, in the folder or in git" in said
    git = ("git", "-C", site.bench.site, "-c", "user.name=t", "-c", "user.email=t@t")
    for words in (("init", "-q"), ("add", "calibrated.yaml"), ("commit", "-qm", "first")):
        assert shell.run(*git, *words).returncode == 0
    site.file.unlink()
    code, said = site.calibrate(
        runs=[scaled(0.5 * f) for f in (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)], launches=6
    )
    assert code == 1
    assert "the median is worse: 33.957 -> 16.9" in said
    assert not site.file.exists()


@pytest.mark.long
def test_a_second_calibration_of_a_worse_machine_needs_a_reason(site):
    assert site.calibrate()[0] == 0
    before = site.file.read_text()
    slower = [scaled(0.9 * f) for f in (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.005)]
    code, said = site.calibrate(runs=slower)
    assert code == 1
    assert "the median is worse: 33.957 -> 30.561 (-10.0 %)" in said
    assert "nothing is written" in said
    assert site.file.read_text() == before

    reason = "memory clocked down after the repair of a fan"
    report = str(site.report())
    code, said = site.calibrate("--from", report, "--reason", reason, "--dry-run")
    assert (code, site.file.read_text()) == (0, before)
    code, said = site.calibrate("--from", report, "--reason", reason)
    assert code == 0, said
    (entry,) = yaml.safe_load(site.file.read_text())["references"]
    assert entry["source"]["reason"] == reason
    assert site.accepted([scaled(0.9)])[:2] == (0, "PASS")


def noisy(run, turn):
    """The recorded run of a curve with `turn` times 0.2 % more time."""
    more = 1 + 0.002 * turn
    said = re.sub(
        r"^(\d+ +)([\d.]+)$", lambda m: f"{m[1]}{float(m[2]) * more:.2f}", run.stdout, flags=re.M
    )
    return run.but(stdout=said)


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        (
            [1, 0.6, 1.01, 0.61, 0.6, 0.99, 0.59],
            "performance: its launches have two speeds: 4 near",
        ),
        pytest.param(
            [0.92**k for k in range(7)],
            "performance: its launches drift: from 31.24 at the beginn",
            marks=pytest.mark.long,
        ),
        pytest.param(
            [1, 0.4, 1.5, 0.7, 2, 0.5, 1.2],
            "performance: its launches spread from 13.58 to ",
            marks=pytest.mark.long,
        ),
        pytest.param(
            [1] * 7, "its 7 launches are identical to the last digit", marks=pytest.mark.long
        ),
    ],
)
def test_launches_that_are_not_of_one_machine_in_one_state_are_refused(site, factors, says):
    code, said = site.calibrate(runs=[scaled(factor) for factor in factors])
    assert code == 1
    assert says in said
    assert "nothing is written" in said
    assert not site.file.exists()


@pytest.mark.long
def test_a_curve_gets_an_envelope_that_finds_a_slow_size(site):
    """A size that no metric uses takes twice its time, which is plausible without a calibration."""
    bench, run, case = site.bench, Recorded.load("osu-latency-posix"), "Osu.*=posix.*=latency$"
    run = run.but(stdout=run.stdout.partition("2097152")[0])  # the smoke profile ends at 1 MiB

    site.offer("network/osu.py")
    words = {"osu_version": "5.7", "ucx_version": "1.13.1"}
    turns = Turns(
        bench,
        [noisy(run, k) for k in range(6)],
        program="osu_latency",
        stack=("osu", "osu"),
        **words,
    )
    bench.partitions[0]["environs"].append("osu")
    bench.write()
    code, said = site.calibrate(launches=6, case=case)
    assert code == 0, said
    (entry,) = yaml.safe_load(site.file.read_text())["references"]
    curve = entry["curves"]["latency"]
    assert curve["unit"] == "us"
    at = curve["sizes"].index(2048)
    assert (curve["values"][at], curve["upper"][at]) == (0.37, 0.225)
    for recorded, verdict in (
        (run.stdout, "PASS"),
        (run.stdout.replace("2048                    0.37", "2048 0.74"), "FAIL"),
    ):
        turns.replay([run.but(stdout=recorded)])
        bench.run("-n", case, "--mode", "smoke", path="reframe/network/osu.py")
        (found,) = session.load_session(site.report()).cases
        assert found.verdict.value == verdict, found.why
    assert "the latency of 2048 B was 0.74 us, in each of 6 launches" in found.why


def test_a_launch_that_fails_ends_in_nothing_written(site):
    runs = [*SEVEN[:3], HPL.but(rc=139), HPL]
    code, said = site.calibrate(runs=runs)
    assert code == 1
    assert "Hpl @bench:here+turns: failed: xhpl ended with exit code 139" in said
    assert not site.file.exists()
    assert site.xhpl.started == 4, "the case is not launched again"


def test_too_few_launches_are_refused(site):
    code, said = site.calibrate(launches=5)
    assert (code, site.xhpl.started) == (64, 0)
    assert "--launches 5: at least 6\n" in said


def test_an_unknown_site_and_a_selection_of_nothing(site):
    done = shell.run(ASSAY, "calibrate", "--site", "nowhere", cwd=ROOT, apart=True)
    assert done.returncode == 64
    assert "unknown site 'nowhere'" in done.stderr
    assert "local" in done.stderr
    code, said = site.calibrate("--stack", "nothing")
    assert code == 1, said
    assert "nothing ran" in said
