"""Launches a retried case again together with the cases that it compares.

ReFrame 4.10.4 (``Runner._retry_failed``) looks for the dependencies of a retried case among the
failed cases. In later retries it looks only among the cases of the previous retry. From the second
retry on, it therefore leaves out a case whose dependency has passed, with a warning. A session
whose other cases pass then ends with exit code 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reframe.core import runtime
from reframe.frontend import dependencies
from reframe.utility import OrderedSet


def install(attempts: Callable[[Any], Any]) -> None:
    """Replaces the function that finds the dependencies of each case in ReFrame.

    :param attempts: the :class:`assay.run.attempts.Attempts` of a test case; None if it had none.
    """
    of_reframe = dependencies.build_deps
    newest: dict[Any, Any] = {}

    def build_deps(cases: Any, default_cases: Any = None) -> Any:
        if default_cases is None or not runtime.runtime().current_run:
            return of_reframe(cases, default_cases)
        # Test cases are equal if their name, partition and environment are equal, so a retried case
        # replaces its earlier attempt. A dictionary keeps its first key, so only the values are the
        # newest cases.
        newest.update((case, case) for case in default_cases)
        newest.update((case, case) for case in cases)
        cases = [*cases, *_compared(cases, newest, attempts)]
        newest.update((case, case) for case in cases)
        graph = {}
        for case in cases:
            case.deps.extend(_depends_on(case, newest))
            for other in case.deps:
                other.in_degree += 1
            graph[case] = OrderedSet(case.deps)
        return graph, []

    dependencies.build_deps = build_deps


def _compared(
    cases: Sequence[Any], newest: Mapping[Any, Any], attempts: Callable[[Any], Any]
) -> list[Any]:
    """The cases that retried cases compare, and that must be launched again before them.

    :param newest: the newest attempt of every test case so far.
    :returns: new test cases. None of them is in `cases`.
    """
    found: dict[Any, Any] = {}
    left = list(cases)
    while left:
        case = left.pop()
        known = attempts(case)
        if case not in found and not (known and known.relaunched):
            continue
        for other in _depends_on(case, newest):
            if other not in found and other not in cases:
                found[other] = other.clone()
                if known := attempts(other):
                    known.again = True
                left.append(found[other])
    return list(found.values())


def _depends_on(case: Any, newest: Mapping[Any, Any]) -> list[Any]:
    here = (case.partition.name, case.environ.name)
    return [
        other
        for name, when in case.check.user_deps()
        for other in newest.values()
        if other.check.unique_name == name
        and when(here, (other.partition.name, other.environ.name))
    ]
