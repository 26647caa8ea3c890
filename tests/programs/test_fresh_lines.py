"""How CI runs a command line of the README, tried without a root of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import module

fresh = module("ci/fresh.py")


@pytest.mark.parametrize("red", [False, True])
def test_of_a_line_that_must_be_red_only_the_end_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], red: bool
) -> None:
    root = fresh.Root(tmp_path)
    root.checkout = str(tmp_path / "a clone für alle")
    (tmp_path / "a clone für alle").mkdir()
    root.command = lambda *words: list(words)
    code, said = root.run(fresh.Line("seq 20; exit 3", red=red))
    shown = capsys.readouterr().out.split()
    assert (code, said.split()) == (3, [str(n) for n in range(1, 21)])
    assert ("1" in shown, "20" in shown) == (not red, True)
