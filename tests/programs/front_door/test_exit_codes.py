"""Each cell of the table of exit codes in docs/command-line.md, and 64 for each command."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml
from certificates import DATA, archive, certify, verify
from msgspec import structs
from shell import BEGIN, ROOT, program, run
from tests.programs.archive.certificate.test_signature import Signed
from tests.pure.describe.test_foreign import THEIRS

from assay import cli
from assay.archive import baseline
from assay.archive.calibrate import launches
from assay.exits import Exit
from assay.judge import Verdict
from assay.show import nodes
from assay.store import session

ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (ROOT / "docs/command-line.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]
COMMANDS = [name for row in ROWS for name in re.findall(r"`(.+?)`", row[0])]
CELLS = [
    (name, code)
    for row in ROWS
    for name in re.findall(r"`(.+?)`", row[0])
    for code, cell in enumerate(row[1:])
    if cell
]
SOUND = ROOT / "tests/data/hpl/plain.np2.txt"


def assay(*words: object) -> int:
    try:
        return cli.main([str(word) for word in words])
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code


class Here:
    """A folder in which every command can end in every way."""

    def __init__(self, folder: Path, checkout: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.checkout, self.patch = folder, checkout, patch
        self.data = shutil.copytree(DATA, folder / "data")
        self.report = self.data / "results/reports/run-report-0.json"

    def ended(self, code: int) -> Path:
        """The run report of a session with the verdict of an exit code."""
        (file,) = self.data.rglob("session.json")
        plan = json.loads(file.read_text())
        if code == Exit.FAIL:
            said = json.loads(self.report.read_text())
            entries = said["runs"][0]["testcases"]
            next(e for e in entries if e["result"] == "skip")["result"] = "fail"
            self.report.write_text(json.dumps(said))
        elif code == Exit.UNKNOWN:
            return self.folder / "no-report.json"
        elif code == Exit.INCONCLUSIVE:
            more = {"display_name": "More", "unique_name": "More", "hashcode": "0"}
            plan["cases"].append({**plan["cases"][0], **more})
            file.write_text(json.dumps(plan))
        elif code == Exit.PARTIAL:
            file.unlink()
        return self.report

    def certificate(self, code: int) -> tuple[int, Path, Path]:
        """Exit code of `assay certify`, the file, and its signers."""
        signed = Signed(self.folder)
        path = self.folder / "new.zip"
        sites = self.data / "site-config"
        return (
            certify(path, signed.ours, session=self.ended(code), folder=sites),
            path,
            signed.signers,
        )

    def suite(self) -> Path:
        """A copy of the sites and the tests; returns the folder of the sites."""
        for name in ("site-config", "reframe"):
            shutil.copytree(ROOT / name, self.folder / name)
        for file in ROOT.glob("spack.*"):
            shutil.copy(file, self.folder)
        return self.folder / "site-config"


def _report(here: Here, code: int) -> int:
    return assay("report", "--session", here.ended(code), "--output", here.folder / "page.html")


def _certify(here: Here, code: int) -> int:
    return here.certificate(code)[0]


def _verify(here: Here, code: int) -> int:
    valid = {Exit.NOT_VALID: 0, Exit.UNEXPECTED: 0}.get(Exit(code), code)
    _, path, signers = here.certificate(valid)
    more = ("--site", "other") if code == Exit.UNEXPECTED else ()
    signed = () if code == Exit.NOT_VALID else ("--signers", signers)
    return verify(path, *signed, *more)


def _acceptance(here: Here, code: int) -> int:
    (here.checkout / "site-config/here").mkdir(parents=True)
    (here.checkout / "site-config/here/reframe.py").touch()
    # Without a session there is nothing to report on.
    program(here.checkout / ".venv/bin", "reframe", ":" if code == Exit.UNKNOWN else BEGIN)
    program(here.checkout / ".venv/bin", "assay", f"exit {code}")
    results = here.folder / "results"
    done = run("bash", here.checkout / "ci/acceptance.sh", SITE="here", ASSAY_RESULTS=results)
    return done.returncode


def _alone(here: Here, code: int) -> int:
    report = here.ended(code)
    here.patch.setenv(
        "ASSAY_RESULTS", str(here.data / "results" if code != Exit.UNKNOWN else report)
    )
    if code in (Exit.PASS, Exit.PARTIAL):
        here.patch.setattr(nodes, "PARTS", {"any": ()})
        days = 10**4 if code == Exit.PASS else 1
        found = session.load_session(here.report)
        plan = msgspec.structs.replace(found.plan, promise={"proven_within_days": days})
        hosts = {"proof": {"hosts": {"n1": 1}}, "verdict": Verdict.PASS}
        cases = tuple(structs.replace(case, **hosts) for case in found.cases if case.verdict)
        old = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
        made = structs.replace(found, plan=plan, cases=cases, start=old, partial=())
        here.patch.setattr(session, "load_session", lambda *_, **__: made)
    return assay()


def _nodes(here: Here, code: int) -> int:
    if code in (Exit.FAIL, Exit.UNKNOWN, Exit.PARTIAL):  # its HPL shows no fault of the memory
        return assay("nodes", "--session", here.ended(Exit.PASS if code == Exit.PARTIAL else code))
    found = session.load_session(here.report)
    case = next(c for c in found.cases if c.verdict is Verdict.PASS and c.metrics)
    judged = next(metric for metric in case.metrics if metric.verdict is Verdict.PASS)
    metrics = (structs.replace(judged, name=n) for n in ("hpl", "stream_copy_star"))
    verdict = Verdict.INCONCLUSIVE if code else Verdict.PASS
    proves = {"processor": ("hpl",), "memory": ("stream_copy_star",)}
    made = {"metrics": tuple(metrics), "verdict": verdict, "proves": proves}
    case = structs.replace(case, test="Hpcc", **made)
    plan = msgspec.structs.replace(found.plan, promise={"words": {"here": ["posix"]}})
    found = structs.replace(found, cases=(case,), plan=plan)
    here.patch.setattr(nodes.session, "load_session", lambda _: found)
    return assay("nodes", "--session", here.report)


def _parse(here: Here, code: int) -> int:
    torn = here.folder / "torn.txt"
    torn.write_text("".join(SOUND.read_text().splitlines(keepends=True)[:40]))
    return assay("parse", (SOUND, torn, here.folder / "nothing")[code])


def _judge(here: Here, code: int) -> int:
    sent = here.folder / "sent.txt"
    sent.write_text("".join(SOUND.read_text().splitlines(keepends=True)[:40]))
    if code == Exit.INCONCLUSIVE:  # a good rate, and no log that shows the path
        rows = "".join(f"{1 << n} {12000 * (1 << n) / ((1 << n) + 4096):.2f}\n" for n in range(23))
        title = "# OSU MPI Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n"
        sent.write_text(title + rows)
    file = {Exit.PASS: SOUND, Exit.UNKNOWN: here.folder / "nothing"}.get(Exit(code), sent)
    link = ("--hardware", "link=infiniband-edr")
    return assay("judge", file, *link)


def _sites(here: Here, code: int) -> int:
    folder = here.folder / "sites"
    if code == Exit.PASS:
        return assay("sites", "local", "--folder", ROOT / "site-config")
    if code == Exit.FAIL:
        (folder / "bad").mkdir(parents=True)
        (folder / "bad/reframe.py").write_text(
            "from reframe.core.exceptions import ConfigError\nraise ConfigError('refused')\n"
        )
    return assay("sites", "--folder", folder)


def _check(here: Here, code: int) -> int:
    settings = here.folder / "settings.yaml"
    settings.write_text(yaml.safe_dump(THEIRS if code == Exit.FAIL else {"systems": 1}))
    return assay("check", "-C", settings if code else ROOT / "site-config/local/reframe.py")


def _expect(here: Here, code: int, *words: str) -> int:
    folder = here.suite()
    if code == Exit.FAIL:
        (here.folder / "reframe/cases.txt").write_text("")
    if code == Exit.UNKNOWN:
        (folder / "ibisco/promise.yaml").write_text("partitions: [1\n")
    return assay("expect", "--site", "ibisco", "--folder", folder, *words)


def _calibrate(here: Here, code: int) -> int:
    site = here.data / "site-config/bench"
    (site / "reframe.py").touch()
    (site.parent / "tolerances.yaml").write_text((ROOT / "site-config/tolerances.yaml").read_text())
    if code == Exit.PASS:
        here.patch.setattr(launches, "samples", lambda *_: {})
    report = here.folder / "nothing" if code == Exit.UNKNOWN else here.report
    return assay("calibrate", "--site", "bench", "--folder", site.parent, "--from", report)


def _archive(here: Here, code: int) -> int:
    sites = here.data / "site-config"
    return archive(here.folder / "kept.zip", session=here.ended(code), folder=sites)


def _history(here: Here, code: int) -> int:
    if code == Exit.PASS:
        return assay("history", "add", here.folder / "history", here.data / "results")
    return assay("history", "show", here.folder / "nothing")


def _site_new(here: Here, code: int) -> int:
    (here.folder / "settings.yaml").write_text(yaml.safe_dump(THEIRS))
    name = "nobody" if code else "aion"
    return assay("site", "new", name, "--from", here.folder / "settings.yaml", "--dry-run")


def _baseline(here: Here, code: int) -> int:
    key, file = Signed(here.folder), here.folder / "shared.yaml"
    hardware = {"link": "infiniband-edr", "gpu": "v100-sxm2-32gb"}
    measured = {"rate": {"unit": "MB/s", "quantiles": [1.0] * 7}}
    entry = {
        **{"case": {"test": "Osu"}, "place": "inter-node", "hardware": hardware, "stack": {}},
        **{"date": "2026-11-20", "launches": 7, "nodes": 2, "metrics": measured},
    }
    if code != Exit.UNKNOWN:
        file.write_text(baseline.signed([entry], key.ours))
    known = () if code == Exit.NOT_VALID else ("--signers", key.signers)
    return assay("baseline", "use", file, "--site", "ibisco", "--folder", here.suite(), *known)


ENDS: dict[str, Callable[[Here, int], int]] = {
    "assay report": _report,
    "ci/acceptance.sh": _acceptance,
    "assay certify": _certify,
    "assay verify": _verify,
    "assay": _alone,
    "assay nodes": _nodes,
    "assay parse": _parse,
    "assay judge": _judge,
    "assay sites": _sites,
    "assay check": _check,
    "assay expect --check": lambda here, code: _expect(here, code, "--check"),
    "assay calibrate": _calibrate,
    "assay baseline": _baseline,
    "assay archive": _archive,
    "assay expect": _expect,
    "assay site new": _site_new,
    "assay history": _history,
}


@pytest.fixture
def here(tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    return Here(tmp_path, checkout, monkeypatch)


def test_the_table_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*ENDS] == COMMANDS
    assert assay("--help") == 0
    listed = re.findall(r"^    (\w+)(?: |$)", capsys.readouterr().out, re.M)
    # `tests` only prints the name of a folder.
    assert {*listed} == {name.split()[1] for name in ENDS if name.startswith("assay ")} | {"tests"}


@pytest.mark.parametrize(("command", "code"), CELLS)
def test_a_command_ends_as_the_table_says(here: Here, command: str, code: int) -> None:
    assert ENDS[command](here, code) == code


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("assay")])
def test_wrong_usage_is_64(command: str) -> None:
    assert assay(*command.split()[1:], "--no-such-option") == Exit.USAGE


def test_an_unknown_site_is_64_for_all(here: Here) -> None:
    for words in (
        ("sites", "nobody"),
        ("calibrate", "--site", "nobody"),
        ("expect", "--site", "nobody"),
    ):
        assert assay(*words, "--folder", ROOT / "site-config") == Exit.USAGE, words
    assert run("bash", here.checkout / "ci/acceptance.sh", SITE="nobody").returncode == Exit.USAGE


def test_an_error_of_ours_is_no_fail(
    here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "load_session", lambda _: 1 / 0)
    assert assay("report", "--session", here.report) == Exit.UNKNOWN
    assert "ZeroDivisionError" in capsys.readouterr().err
