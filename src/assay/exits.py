"""The exit codes of all commands; docs/command-line.md has the table for each of them.

64 is wrong usage in sysexits.h: 2, as in argparse, would look like a run that cannot be read.
PARTIAL is not 3: CI may allow a part that somebody asked for, but not a run without a decision.
"""

import enum


class Exit(enum.IntEnum):
    """How a command ended; ``Exit[word]`` is the code of a verdict on a run."""

    PASS = 0
    RECORDED = 0  # a run may be RECORDED without a fault only where its site allows it
    FAIL = 1
    UNKNOWN = 2  # there is nothing to read, or it cannot be used
    INCONCLUSIVE = 3
    INTERRUPTED = 3
    PARTIAL = 4
    PROVISIONAL = 4
    NOT_VALID = 5  # a certificate was changed, nobody known signed it, or its verdict is another
    UNEXPECTED = 6  # a valid one is of another site, time or nodes
    USAGE = 64
