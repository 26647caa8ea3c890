"""How a metric follows from the cells of an output, so that another machine can compute it again.

A test computes its metrics in ``measure(parsed)``, in Python. :func:`of` calls it with rows whose
numbers remember where they came from. A formula is JSON:

- a number;
- ``["cell", ROW, COLUMN]``: a cell of the rows, rows counted from 0;
- ``["metric", CASE, WHERE, NAME, VALUE]``: a metric of another case, and the value that was read;
- ``[SIGN, FORMULA, FORMULA]`` with one of ``+ - * /``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.metrics import UNITS
from assay.parse import Parsed, Quantity, Row

Formula = float | list[Any]

SIGNS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Number(float):
    """A float with the formula that it came from. A copy of it is a float."""

    formula: Formula

    def __new__(cls, value: float, formula: Formula) -> Number:
        made = super().__new__(cls, value)
        made.formula = formula
        return made

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)


def _operator(sign: str, swapped: bool) -> Callable[[Number, Any], Any]:
    def apply(self: Number, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return Number(SIGNS[sign](float(a), float(b)), [sign, formula(a), formula(b)])

    return apply


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}.items():
    setattr(Number, f"__{_name}__", _operator(_sign, swapped=False))
    setattr(Number, f"__r{_name}__", _operator(_sign, swapped=True))


def formula(value: float) -> Formula:
    """The formula of a number; of a plain number it is the number."""
    return value.formula if isinstance(value, Number) else float(value)


def of(
    measure: Callable[[Parsed], Mapping[str, Any]], parsed: Parsed
) -> tuple[dict[str, Any], dict[str, list[Formula]]]:
    """What a test measured, in plain numbers, and the formulas of each metric in their order.

    A metric is without formulas if the test computed it in another way, for example with a
    logarithm. `measure` is called once, and again only if it raises an error.

    :raises Exception: what `measure` raises on plain numbers.
    """
    traced = replace(parsed, rows=tuple(_traced(parsed, at) for at in range(len(parsed.rows))))
    try:
        measured = dict(measure(traced))
    except Exception:  # what a test cannot do with such numbers, it may do with the plain ones
        return dict(measure(parsed)), {}
    found: dict[str, list[Formula]] = {}
    for name, value in measured.items():
        many = value.value if isinstance(value, Quantity) else value
        values = list(many) if isinstance(many, Sequence) else [many]
        formulas = [formula(one) for one in values if isinstance(one, Number)]
        if formulas and len(formulas) == len(values):
            found[name] = formulas
    return {name: _plain(parsed, value) for name, value in measured.items()}, found


def _plain(parsed: Parsed, value: Any) -> Any:
    """The numbers themselves; a cell that was a whole number is one again."""
    match value:
        case Quantity():
            return replace(value, value=_plain(parsed, value.value))
        case [*values]:
            return [_plain(parsed, one) for one in values]
        case Number(formula=["cell", at, column]):
            return parsed.rows[at][column]
        case Number():
            return float(value)
    return value


def _traced(parsed: Parsed, at: int) -> Row:
    """A row whose measured numbers know their place. A count is also an index, so it stays."""
    measured = [
        column
        for column, unit in parsed.units.items()
        if unit in UNITS and UNITS[unit].kind in ("rate", "time")
    ]
    return {
        column: Number(value, ["cell", at, column])
        if type(value) is float or (type(value) is int and column in measured)
        else value
        for column, value in parsed.rows[at].items()
    }


def evaluate(
    said: Any, rows: Sequence[Row], metric: Callable[[str, str, str, float], float]
) -> float:
    """The value of a formula.

    :param metric: gives the value of a metric of another case, from the arguments of its node.
    :raises ValueError: it is no formula, or a cell is not there.
    """
    no_value = f"{said!r:.200} has no value"
    try:
        match said:
            case bool():
                pass
            case int() | float():
                return float(said)
            case ["cell", at, column] if at >= 0:
                return float(rows[at][column])
            case ["metric", case, where, name, value]:
                return metric(str(case), str(where), str(name), float(value))
            case [str(sign), a, b] if sign in SIGNS:
                return SIGNS[sign](evaluate(a, rows, metric), evaluate(b, rows, metric))
    except (TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{no_value}: {error!r:.100}") from None
    raise ValueError(no_value)
