"""``assay calibrate``: turns the results of N launches on a site into its references."""

from __future__ import annotations


class CalibrationError(Exception):
    """Why nothing is written: one line for each cause, with its remedy."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines
