"""A test on a shared machine: when it is not begun, and which launches count.

The argument `test` is always a :class:`assay.checks.strict.StrictCheck`. Nothing here applies to a
partition without the extra ``others``.
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
    """The extra ``others``: which processor time is ours, see :mod:`assay.evidence.busy`."""
    said = test.current_partition.extras.get("others")
    return None if said is None else str(said)


def too_busy(test: Any) -> str:
    """Why a test that measures is not begun, in one line; empty if it can be begun.

    The machine is checked once, before the first such test.
    """
    said = ours(test)
    if said is None or test.kind == "node" or test.purpose == "calibration":
        return ""
    return _look(said, busy.limits(site_directory())["before"])


#: The machine as the tests are loaded. ReFrame then needs some seconds until the first launch, in
#: which the machine can be looked at without waiting.
_LOADED = busy.reading(busy.PROCESSES)


@cache
def _look(said: str, limit: float) -> str:
    """Calls :func:`assay.evidence.busy.look` and logs its answer, once."""
    if why := busy.look(said, limit, _LOADED if said == busy.PROCESSES else None):
        getlogger().warning(f"this machine is busy: {why}; nothing is measured or judged")
    return why


def disturbance(test: Any) -> str:
    """What other work took during the last launch; empty if it took little.

    The launches of the test and of the tests that it compares are checked. The launch with the most
    other work counts.
    """
    launches = [test, *testcase.compared(test)]
    known = [check.others for check in launches if check.others is not None]
    if ours(test) is None or not known:
        return ""
    most = max(known, key=lambda others: others.processors)
    limit = busy.limits(site_directory())["during"]
    return f"other work took {most}" if most.processors > limit else ""


def judged(test: Any) -> bool:
    """Whether the numbers of a test can turn a run red, if the run is not a calibration."""
    if test.judges_itself:
        return True
    for name, unit in test.declares.items():
        try:
            # Any peak will do, because only the existence of a reference matters.
            expected = site_references().find(test.case(), name, unit, peak=1.0)
        except ReferencesError:
            return False  # the test fails after its run and reports the reason
        if isinstance(expected, Reference):
            return True
    return False
