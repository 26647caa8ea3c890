"""A test on a shared machine: which launches count.

The argument `test` is always a :class:`assay.run.strict.StrictCheck`. Nothing here applies to a
partition without the extra ``others``.
"""

from __future__ import annotations

from typing import Any

from assay.judge import LAUNCHES_TO_FAIL
from assay.prove import busy
from assay.reframe_compat import runner, testcase
from assay.run.site import site_directory


def ours(test: Any) -> str | None:
    """The extra ``others``: which processor time is ours, see :mod:`assay.prove.busy`."""
    said = test.current_partition.extras.get("others")
    return None if said is None else str(said)


def disturbance(test: Any) -> str:
    """What other work took during the last launch; empty if it took little.

    The launches of the test and of the tests that it compares are checked. The launch with the most
    other work counts.
    """
    launches = [check._launched for check in (test, *testcase.compared(test))]
    known = [launch.others for launch in launches if launch and launch.others]
    if ours(test) is None or not known:
        return ""
    most = max(known, key=lambda others: others.processors)
    limit = busy.limit(site_directory())
    return f"other work took {most}" if most.processors > limit else ""


def last_beside_others(test: Any) -> bool:
    """Whether a launch that other work disturbed is the last one of its case."""
    known = test._attempts  # whose `disturbed` are the launches before this one
    most = min(LAUNCHES_TO_FAIL, runner.retries() + 1)
    enough = known.disturbed + 1 >= most or known.launches > runner.retries()
    return enough or not test.measures_anew


def of_a_person(test: Any) -> bool:
    """Whether the machine is that of a person. There, other work does not make a run red."""
    return ours(test) == busy.PROCESSES
