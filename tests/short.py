"""The option `--short`, which `make test` uses. The end of the run lists the tests left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

#: The command that runs everything.
ALL = "make test-all"
#: Every test that has a shorter form asks the fixture `short`.
SHORTER = (
    "most examples of the property tests, most cuts of the outputs of parse/test_registry.py, the "
    "longest lines of parse/test_registry_time.py, most outputs that opinions/test_pasted.py "
    "damages, most cuts and changes of files and certificates, large messages between emulated "
    "GPUs, most texts that make and shells must not run"
)


def left_out(item: pytest.Item) -> str:
    """The reason why a short run leaves a test out; empty if the test runs."""
    if item.get_closest_marker("clusters"):
        return "clusters, images, Spack"
    return "long" if item.get_closest_marker("long") else ""


class Short:
    """Leaves tests out at collection, and lists them in the process that reports."""

    def __init__(self) -> None:
        self.left: Counter[tuple[str, str]] = Counter()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[Any]) -> None:
        out = [item for item in items if left_out(item)]
        items[:] = [item for item in items if not left_out(item)]
        config.hook.pytest_deselected(items=out)
        self.left.update((left_out(item), item.path.name) for item in out)
        if hasattr(config, "workeroutput"):
            config.workeroutput["left"] = [(*key, count) for key, count in self.left.items()]

    @pytest.hookimpl(optionalhook=True)  # of xdist; all workers collect the same tests
    def pytest_testnodedown(self, node: Any) -> None:
        for why, name, count in getattr(node, "workeroutput", {}).get("left", ()):
            self.left[why, name] = count

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # the last section before the counts
    def pytest_terminal_summary(self, terminalreporter):
        yield
        terminalreporter.section(f"left out; {ALL} runs it")
        for why in sorted({why for why, _ in self.left}):
            files = {name: count for (each, name), count in self.left.items() if each == why}
            named = ", ".join(f"{name} {count}" for name, count in sorted(files.items()))
            terminalreporter.line(f"{sum(files.values()):4} tests ({why}): {named}")
        terminalreporter.line(f"     {SHORTER}")
