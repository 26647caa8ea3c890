"""Tests of the suite that tests of a study are derived from, or compare."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from reframe.utility import import_module_from_file

_TESTS = Path(__file__).resolve().parents[1] / "reframe"


def module(path: str) -> ModuleType:
    """A file of tests, as ReFrame itself loads it; `path` is relative to ``reframe/``."""
    loaded: ModuleType = import_module_from_file(str(_TESTS / path), load_parents=True)
    return loaded
