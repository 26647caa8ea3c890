"""How a metric follows from the cells of an output, so that another machine can compute it again.

A test computes its metrics in ``measure(parsed)``, in Python. The cells that it picks by
``parsed.quantity()`` or ``parsed.cells()`` remember where they came from. A formula is JSON:

- a number;
- ``["cell", ROW, COLUMN]``: a cell of the rows, rows counted from 0;
- ``["metric", CASE, WHERE, NAME, VALUE]``: a metric of another case, and the value that was read;
- ``[SIGN, FORMULA, FORMULA]`` with one of ``+ - * /``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


def origins(measured: Mapping[str, Any]) -> dict[str, list[Formula]]:
    """The formulas of each metric, in the order of its values.

    A metric is left out if a test computed it in another way, for example with a logarithm.

    :param measured: a quantity, a number or several numbers of each metric, as a test returns them.
    """
    found: dict[str, list[Formula]] = {}
    for name, value in measured.items():
        many = getattr(value, "value", value)  # of a quantity
        values = list(many) if isinstance(many, Sequence) else [many]
        formulas = [formula(one) for one in values if isinstance(one, Number)]
        if formulas and len(formulas) == len(values):
            found[name] = formulas
    return found
