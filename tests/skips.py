"""Counts skips by reason. A skip that tests/skips.yaml does not allow turns the run red."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import yaml

TIERS = ("pure", "programs", "clusters")


@dataclass(frozen=True)
class Allowed:
    """An entry of skips.yaml. It allows, in `tiers`, skips whose whole reason matches `reason`."""

    reason: re.Pattern[str]
    tiers: tuple[str, ...]
    why: str
    run: str | None = None


def load(file: Path) -> list[Allowed]:
    """The entries of `file`.

    :raises pytest.UsageError: one line that names file, entry and key.
    """
    found = []
    for number, entry in enumerate(yaml.safe_load(file.read_text()), 1):
        try:
            _known("key", entry, [field.name for field in fields(Allowed)])
            _known("tier", entry["tiers"], TIERS)
            pattern, tiers = re.compile(entry["reason"]), tuple(entry["tiers"])
            found.append(Allowed(pattern, tiers, entry["why"], entry.get("run")))
        except (AttributeError, KeyError, TypeError, ValueError, re.error) as error:
            raise pytest.UsageError(f"{file.name}: entry {number}: {error}") from None
    return found


def _known(kind: str, given: Iterable[str], known: Sequence[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"no {kind}: {', '.join(unknown)}; say {', '.join(known)}")


def tier(nodeid: str) -> str:
    """Tier of a test or a file: the folder below tests/ or lab/tests/; empty if there is none."""
    parts = nodeid.split("::", maxsplit=1)[0].split("/")
    return next((part for part in parts if part in TIERS), "")


class Skips:
    """Counts skips in the process that reports, which with xdist is the controller.

    `complete`: everything that can be installed is installed. Then a skip that a command would
    remove is not allowed.
    """

    def __init__(self, allowed: list[Allowed], complete: bool) -> None:
        self.allowed = allowed
        self.complete = complete
        self.seen: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.count(report)

    def count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        text = report.longrepr[2] if isinstance(report.longrepr, (tuple, list)) else report.longrepr
        self.seen[tier(report.nodeid), str(text).removeprefix("Skipped: ")] += 1

    def entry(self, where: str, reason: str) -> Allowed | None:
        """The entry that allows this skip; None if no entry allows it."""
        for each in self.allowed:
            if where in each.tiers and each.reason.fullmatch(reason):
                return None if self.complete and each.run else each
        return None

    @property
    def forbidden(self) -> list[tuple[str, str]]:
        return [key for key in self.seen if self.entry(*key) is None]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.forbidden and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # the last section before the counts
    def pytest_terminal_summary(self, terminalreporter):
        yield
        write = terminalreporter
        if self.seen:
            write.section("skips by reason")
        for (where, reason), count in sorted(self.seen.items()):
            entry = self.entry(where, reason)
            if entry:
                mend = f"; {entry.run} runs it" if entry.run else ""
                write.line(f"{count:4} {where}: {reason} ({entry.why}{mend})")
        for where, reason in sorted(self.forbidden):
            text = f"NOT ALLOWED {self.seen[where, reason]} {where or 'no tier'}: {reason}"
            write.line(text, red=True)
        if self.forbidden:
            write.line("tests/skips.yaml does not allow these here: the run is red", red=True)
