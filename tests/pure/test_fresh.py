"""The command lines of the README, as CI extracts them for its fresh machines."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from shell import ROOT, module

fresh = module("ci/fresh.py")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_line_of_the_readme_runs_on_some_machine() -> None:
    shown = re.findall(r"^```sh\n(.*?)^```$", README, re.M | re.S)
    lines = [line.partition("  #")[0].strip() for block in shown for line in block.splitlines()]
    run = [line.text for lines in fresh.blocks(README).values() for line in lines]
    assert sorted(run) == sorted(filter(None, lines))
    assert {"acceptance", "test", "vcluster"} <= set(fresh.machines(README))


def test_no_line_has_a_placeholder() -> None:
    for lines in fresh.machines(README).values():
        for line in lines:
            assert not re.search(r"…|\.\.\.|<[a-z]+>|\bFILE\b", line.text), line.text


def test_every_target_of_make_in_the_readme_is_there() -> None:
    there = set(re.findall(r"^([a-z][\w -]*):(?!=)", (ROOT / "Makefile").read_text(), re.M))
    names = {name for group in there for name in group.split()}
    named = set(re.findall(r"(?:^|`|&& )make ([a-z][\w-]*)", README, re.M))
    assert named <= names


def test_a_block_without_a_machine_is_refused() -> None:
    with pytest.raises(fresh.Refusal, match="machine: NAME"):
        fresh.blocks(README + "\n```sh\nmake something\n```\n")


def test_what_a_user_installs_first_is_read_off_the_readme() -> None:
    assert fresh.packages(README) == ["git", "make", "ca-certificates"]
    with pytest.raises(fresh.Refusal, match="what a user installs first"):
        fresh.packages("no such line")


def test_a_line_that_must_be_red_says_so() -> None:
    text = "<!-- machine: one -->\n```sh\nmake a    # does a\nmake b    # red: it cannot\n```\n"
    assert [(line.text, line.red) for line in fresh.blocks(text)["one"]] == [
        ("make a", False),
        ("make b", True),
    ]


def machine(rc: int, said: str = "") -> SimpleNamespace:
    """A root whose commands end like this."""
    return SimpleNamespace(
        clone=lambda user: None, count_packages=lambda: 100, run=lambda line: (rc, said)
    )


@pytest.mark.parametrize(
    ("root", "red", "problem"),
    [
        (machine(0, "all is well"), False, ""),
        (machine(2), False, "ended with 2"),
        (machine(1), True, ""),
        (machine(0), True, "should have been red"),
        (machine(0, "system-stack: going on without: hpcc\n"), False, "going on without: hpcc"),
    ],
)
def test_a_machine_is_red_where_a_line_does_not_do_what_the_readme_says(
    monkeypatch: pytest.MonkeyPatch, root: SimpleNamespace, red: bool, problem: str
) -> None:
    monkeypatch.setattr(fresh, "unpacked", lambda tar, keep: nullcontext(root))
    problems = fresh.run_machine("one", [fresh.Line("make a", red=red)], Path("tar"), False)
    assert problem in "".join(problems)
    assert bool(problems) is bool(problem)


def test_the_last_words_of_a_failed_line_are_said_again_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = "".join(f"line {n}\n" for n in range(100))
    root = machine(2, f"FAILED tests/test_one.py::test_a\n{lines}")
    monkeypatch.setattr(fresh, "unpacked", lambda tar, keep: nullcontext(root))
    (problem,) = fresh.run_machine("one", [fresh.Line("make a")], Path("tar"), False)
    assert problem.endswith("    | line 99") and problem.count("| line") == fresh.LONG
    assert "    | FAILED tests/test_one.py::test_a\n    | line 70\n" in problem
