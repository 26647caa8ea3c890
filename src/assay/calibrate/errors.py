"""The one error of a calibration."""

from __future__ import annotations

from collections.abc import Sequence


class CalibrationError(Exception):
    """Why nothing is written.

    :ivar lines: one line for each cause, with its remedy.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines: Sequence[str] = lines
