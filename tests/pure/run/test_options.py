"""Options of tests: a partition sets typed variables, and one line says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import reframe as rfm
from reframe.core.builtins import variable
from reframe.core.runtime import temp_runtime

from assay.reframe_compat.command import Invocation, Option
from assay.run import options


class Base(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    width = variable(options.COUNT, options.NONE, value=None)


class Each(Base):
    tolerance = variable(options.SHARE, value=0.3)


@pytest.fixture
def test() -> Iterator[Each]:
    with temp_runtime("<builtin>", "generic"):
        yield Each()


def test_a_test_takes_its_options_and_those_of_its_bases(test: Each) -> None:
    options.take(test, {"Base.width": 2, "Each.tolerance": 0.6, "Other.width": 3})
    assert (test.width, test.tolerance) == (2, 0.6)
    options.take(test, {"Each.width": None})
    assert test.width is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            {"Each.widht": 1},
            "options: Each.widht: Each has no option 'widht'; did you mean 'width'?",
        ),
        (
            {"Each.xyz": 1},
            "options: Each.xyz: Each has no option 'xyz'; known are tolerance, width",
        ),
        ({"Each.num_tasks": 1}, "Each has no option 'num_tasks'"),
        ({"Each.width": 0}, "options: Each.width: 0 is not a whole number above 0"),
        ({"Each.width": True}, "True is not a whole number above 0"),
        ({"Base.width": "2"}, "'2' is not a whole number above 0"),
        ({"Each.tolerance": 30}, "30 is not a number above 0 and below 1"),
        ({"Each.tolerance": "often"}, "'often' is not a number above 0 and below 1"),
    ],
)
def test_a_wrong_option_is_one_line(test: Each, said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError) as error:
        options.take(test, said)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Eahc.width", "no test is called 'Eahc'; did you mean 'Each'?"),
        ("width", "is not Test.option"),
        ("Base.tolerance", None),
        ("Each.tolerence", "Each has no option 'tolerence'; did you mean 'tolerance'?"),
    ],
)
def test_a_name_that_no_test_of_the_suite_has(name: str, why: str | None) -> None:
    said = list(options.unknown([Each], [name]))
    assert [why in line for line in said] == [True] if why else not said


def test_what_the_call_of_reframe_sets_prevails(
    test: Each, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, width in (("Each.width=4", None), ("width=4", None), ("Other.width=4", 2)):
        call = Invocation(True, None, (Option("vars", "-S", given),))
        monkeypatch.setattr(options, "command", SimpleNamespace(of_reframe=lambda call=call: call))
        test.width = None
        options.take(test, {"Each.width": 2})
        assert test.width == width


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (options.COUNT, "4", 4),
        (options.SHARE, "0.5", 0.5),
        (options.POSITIVE, "3", 3),
        (options.SIZE, "2x-memory", "2x-memory"),
        (options.SIZE, "1024", 1024),
    ],
)
def test_a_value_on_the_command_line_is_of_its_kind(kind: type, text: str, value: Any) -> None:
    assert kind(text) == value
    with pytest.raises(TypeError, match="'x' is not"):
        kind("x")
