"""The exit codes of all commands; docs/command-line.md has the table for each of them.

Nagios, Slurm and CI read 0 as good and all else as bad. 64 is the code for wrong usage of
sysexits.h: 2, the code of argparse, would look like a run that cannot be read. PARTIAL has a code
of its own, because CI may allow a part that somebody asked for, but not a run without a decision.
"""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """How a command ended."""

    PASS = 0
    FAIL = 1
    #: There is nothing to read, or it cannot be used.
    UNKNOWN = 2
    UNDECIDED = 3
    PARTIAL = 4
    USAGE = 64

    @classmethod
    def of(cls, word: str) -> Exit:
        """That of the verdict on a run. A run that is RECORDED without a fault is allowed to be."""
        return _OF_VERDICT[word]


_OF_VERDICT = {
    "PASS": Exit.PASS,
    "RECORDED": Exit.PASS,
    "FAIL": Exit.FAIL,
    "INCONCLUSIVE": Exit.UNDECIDED,
    "INTERRUPTED": Exit.UNDECIDED,
    "PARTIAL": Exit.PARTIAL,
    "PROVISIONAL": Exit.PARTIAL,
}
