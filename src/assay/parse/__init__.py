"""Outputs of benchmark programs, from text to typed rows. Pure functions; nothing here does I/O."""

from assay.parse.reading import Parsed, ParseError, Quantity, Row, Value

__all__ = ["ParseError", "Parsed", "Quantity", "Row", "Value"]
