"""Prints from time to time how far a run of the tests is, and about how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

#: Shortest time between two lines [s].
EVERY = 20.0

#: The share of the expected time that must be over before the time left is said: the first tests of
#: a first run tell little.
EARLY = 0.1

#: Where pytest's cache keeps how long each test took in its last run [s].
KEPT = "assay/durations"


def usual(nodeid: str) -> float:
    """The time of a test that has not run here yet [s], compared with that of others."""
    return 0.02 if "tests/pure/" in nodeid else 3.0


class Remaining:
    """Hears of each test that ends, in the process that reports.

    :param known: seconds that tests took in earlier runs.
    :param say: prints a line.
    """

    def __init__(
        self,
        known: Mapping[str, float],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known, self.say, self.clock = dict(known), say, clock
        self.phases: dict[str, float] = {}
        self.took: dict[str, float] = {}
        self.left: dict[str, float] = {}
        self.spent = 0.0
        self.begin = self.told = clock()

    def plan(self, nodeids: list[str]) -> None:
        """The tests of this run. With xdist, each worker collects the same ones."""
        if not self.left and not self.took:
            self.left = {name: self.known.get(name, usual(name)) for name in nodeids}
            self.begin = self.told = self.clock()

    def line(self) -> str:
        """A line such as ``elapsed 1:35, 2300 of 6400 tests, about 2:50 left``."""
        elapsed = self.clock() - self.begin
        tests = len(self.took) + len(self.left)
        text = f"elapsed {_minutes(elapsed)}, {len(self.took)} of {tests} tests"
        left = sum(self.left.values())
        if left and self.spent > EARLY * (self.spent + left):
            # Scaled by the elapsed time: the machine may be slower today.
            text += f", about {_minutes(elapsed * left / self.spent)} left"
        return text

    def pytest_collection_finish(self, session: Any) -> None:
        self.plan([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)  # of xdist
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self.plan(ids)

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid
        self.phases[name] = self.phases.get(name, 0.0) + report.duration
        if report.when == "teardown" and name in self.left:
            self.took[name] = self.phases.pop(name)
            self.spent += self.left.pop(name)
            if self.left and self.clock() - self.told >= EVERY:
                self.told = self.clock()
                self.say(self.line())

    def pytest_sessionfinish(self, session: Any) -> None:
        if cache := getattr(session.config, "cache", None):
            # A run of all tests forgets those that are no more.
            known = {} if len(self.took) > len(self.known) // 2 else self.known
            cache.set(KEPT, {**known, **self.took})


def begin(config: pytest.Config) -> None:
    """Registers the lines, but not in a worker of xdist."""
    if hasattr(config, "workerinput"):
        return
    cache = getattr(config, "cache", None)

    def say(line: str) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(line)

    known = (cache and cache.get(KEPT, None)) or {}
    config.pluginmanager.register(Remaining(known, say))


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
