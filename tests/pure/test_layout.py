"""A test is found by the path of its module: ROOM/NAME.py has tests/TIER/ROOM/test_NAME.py."""

from __future__ import annotations

from pathlib import Path

import shell
import yaml
from shell import ROOT

width = shell.module("ci/width.py")

ELSEWHERE: dict[str, str] = yaml.safe_load((ROOT / "tests/elsewhere.yaml").read_text())


def test_every_module_has_a_test_at_its_path_or_says_where_it_is() -> None:
    """Also red: an entry of a module that is gone, or that has a test at its path by now."""
    assert width.untested(ROOT) == sorted(ELSEWHERE)


def test_what_the_list_names_is_there() -> None:
    assert [file for file in ELSEWHERE.values() if not (ROOT / file).is_file()] == []


def test_a_folder_of_tests_is_a_room() -> None:
    """A room that was moved takes its tests along."""
    rooms = {path.parent.relative_to(ROOT / "src/assay") for path in ROOT.glob("src/assay/**/*.py")}
    others = {Path("locks"), Path("front_door")}
    for tier in ("pure", "programs"):
        tests = (ROOT / "tests" / tier).rglob("test_*.py")
        found = {path.parent.relative_to(ROOT / "tests" / tier) for path in tests}
        assert found - others <= rooms
