"""Options of tests: typed variables of ReFrame, which a site may set for a partition.

The extra ``options`` of a partition is a mapping ``Test.variable: value``. ``Test`` is the class of
a test or a base of it, so ``PairsOfNodes.seconds`` is for all tests of pairs. What ``-S`` sets
prevails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from reframe import RunOnlyRegressionTest

from assay import files
from assay.reframe_compat import command


class _Kind(type):
    """The type of a variable; its name is what messages call its values."""

    fits: Callable[[Any], bool]

    def __instancecheck__(cls, value: object) -> bool:
        return cls.fits(value)

    def __call__(cls, text: str) -> Any:
        """The value that ``-S`` gives as text."""
        for read in (int, float, str):
            try:
                if isinstance(value := read(text), cls):
                    return value
            except ValueError:
                continue
        raise TypeError(f"{text!r} is not {cls.__name__}")


def kind(name: str, fits: Callable[[Any], bool]) -> type:
    """A type of variables."""
    return _Kind(name, (), {"fits": staticmethod(fits)})


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


SHARE = kind("a number above 0 and below 1", lambda v: _number(v) and 0 < v < 1)
POSITIVE = kind("a number above 0", lambda v: _number(v) and 0 < v < math.inf)
COUNT = kind("a whole number above 0", lambda v: type(v) is int and v > 0)
SIZE = kind(
    "2x-memory, or a number of bytes",
    lambda v: isinstance(v, COUNT) or bool(re.fullmatch(r"[1-9]\d*(\.\d+)?x-memory", str(v))),
)
NONE = type(None)


def unknown(tests: Collection[type], options: Iterable[str]) -> Iterator[str]:
    """What is wrong with the names of options, one line each."""
    for key in options:
        owner, _, name = key.rpartition(".")
        if not owner:
            yield f"options: {key}: is not Test.option, such as EachNode.tolerance"
            continue
        those = [test for test in tests if owner in _names(test)]
        known = {each for test in those for each in _variables(test)}
        if not those:
            names = {each for test in tests for each in _names(test)}
            yield f"options: {key}: no test is called {owner!r}; {files.nearest(owner, names)}"
        elif name not in known:
            yield f"options: {key}: {owner} has no option {name!r}; {files.nearest(name, known)}"


def take(test: Any, options: Mapping[str, Any]) -> None:
    """Sets the variables of a test as a partition says.

    :raises ValueError: there is no such variable, or it takes no such value; one line.
    """
    mine = {key: said for key, said in options.items() if key.split(".")[0] in _names(type(test))}
    for problem in unknown([type(test)], mine):
        raise ValueError(problem)
    call = command.of_reframe() if mine else None
    given = {o.value.partition("=")[0] for o in (call.given if call else ()) if o.dest == "vars"}
    for key, value in mine.items():
        name = key.rpartition(".")[2]
        if given.isdisjoint({name, f"{type(test).__name__}.{name}"}):
            try:
                setattr(test, name, value)
            except TypeError:
                types = type(test).var_space[name].field.valid_types
                kinds = " or ".join(each.__name__ for each in types if each is not NONE)
                raise ValueError(f"options: {key}: {value!r} is not {kinds}") from None


def _names(test: type) -> set[str]:
    return {each.__name__ for each in test.__mro__}


def _variables(test: Any) -> set[str]:
    """Those that are not ReFrame's own."""
    return {*test.var_space} - {*RunOnlyRegressionTest.var_space}
