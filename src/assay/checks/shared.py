"""A test on a machine that others use, too: when it is not begun, and which launches count.

It is a :class:`assay.checks.strict.StrictCheck` throughout. On a partition without the extra
``others`` nothing here applies.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from reframe.core.logging import getlogger

from assay.checks.site import site_directory, site_references
from assay.evidence import busy
from assay.judge import Reference, ReferencesError
from assay.reframe_compat import testcase


def ours(test: Any) -> str | None:
    """What of the processor time of its machine is ours, see :mod:`assay.evidence.busy`."""
    said = test.current_partition.extras.get("others")
    return None if said is None else str(said)


def too_busy(test: Any) -> str:
    """Why a test that measures is not begun, in one line; empty where it can be.

    The machine is looked at once, before the first of them.
    """
    said = ours(test)
    if said is None or test.kind == "node" or test.purpose == "calibration":
        return ""
    return _look(said, busy.limits(site_directory())["before"])


@cache
def _look(said: str, limit: float) -> str:
    """As :func:`assay.evidence.busy.look`; says it once."""
    if why := busy.look(said, limit):
        getlogger().warning(f"this machine is busy: {why}; nothing is measured or judged")
    return why


def disturbance(test: Any) -> str:
    """What other work took during its last launch, or of a test that it compares; empty if little.

    The most of them counts.
    """
    launches = [test, *testcase.compared(test)]
    known = [check.others for check in launches if check.others is not None]
    if ours(test) is None or not known:
        return ""
    most = max(known, key=lambda others: others.processors)
    limit = busy.limits(site_directory())["during"]
    return f"other work took {most}" if most.processors > limit else ""


def judged(test: Any) -> bool:
    """Whether the numbers of a test that is not a calibration can turn a run red."""
    if test.judges_itself:
        return True
    for name, unit in test.declares.items():
        try:
            # Any peak will do: whether there is a reference is the question.
            expected = site_references().find(test.case(), name, unit, peak=1.0)
        except ReferencesError:
            return False  # it fails when it has run, and says why
        if isinstance(expected, Reference):
            return True
    return False
