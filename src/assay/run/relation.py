"""Ratios of what other cases of the same run measured: they have a meaning on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reframe.utility import udeps

from assay.parse import Parsed
from assay.run.strict import StrictCheck


class Relation(StrictCheck):
    """Compares other cases at its place; it starts no program.

    A test states its operands after init, by :meth:`compare`.
    """

    executable = "true"

    #: Name -> the case that measures it, and the metric there.
    _operands: Mapping[str, tuple[str, str]] = {}

    def compare(self, **operands: tuple[str, str]) -> None:
        """Depends on these cases; each operand is the name of a case, and its metric."""
        self._operands = operands
        for case in dict.fromkeys(case for case, _ in operands.values()):
            self.depends_on(case, udeps.by_case)

    def read(self) -> Parsed:
        """A row for each operand: its name, and its value in the unit of its case."""
        rows = tuple(
            {"operand": name, "value": self.getdep(case).value(metric)}
            for name, (case, metric) in self._operands.items()
        )
        return Parsed("assay", "relation", None, True, rows, {"value": "1"})

    def ratio(self, parsed: Parsed, above: str, below: str) -> Any:
        """The quotient of two operands."""
        one, other = (parsed.quantity("value", operand=name).value for name in (above, below))
        return one / other


def variant(test: Any, **parameters: Any) -> str:
    """The name of the only case of a test with these values of its parameters."""
    (number,) = test.get_variant_nums(**parameters)
    name: str = test.variant_name(number)
    return name
