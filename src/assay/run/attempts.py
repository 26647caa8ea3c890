"""The attempts of one test case in one session of ReFrame (``--max-retries``), judged together.

ReFrame runs a failed case again, and only the last result counts there. Here every launch counts:
the samples of all launches accumulate, and a settled case is not launched again. If a failed case
compares other cases, these are launched again with it. Otherwise it would compare the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reframe.core.exceptions import SanityError

from assay.judge import Ratios
from assay.parse import Row
from assay.reframe_compat import dependencies


@dataclass
class Attempts:
    """The state of one case.

    :ivar jobs: the job of each launch.
    :ivar samples: for each metric the values of all launches, in their order.
    :ivar failure: the failure that settled the case: no further launch can turn it into a pass;
        None while the case is not settled.
    :ivar disturbed: number of launches that do not count, because the machine was busy.
    :ivar passed: whether the last launch passed and the next one begins anew; false for a case
        whose launches are never repeated.
    :ivar again: whether a case that compares this case asks for another launch.
    :ivar earlier: number of launches in the same session that the case passed on before.
    """

    jobs: list[Any] = field(default_factory=list)
    samples: dict[str, list[float]] = field(default_factory=dict)
    ratios: list[Ratios] = field(default_factory=list)
    rows: list[Sequence[Row]] = field(default_factory=list)
    failure: Exception | None = None
    disturbed: int = 0
    passed: bool = False
    again: bool = False
    earlier: int = 0
    _judged: int = 0

    @property
    def launches(self) -> int:
        return len(self.jobs)

    @property
    def relaunched(self) -> bool:
        """Whether a retry launches the case again: it was launched, and is not settled."""
        return self.launches > 0 and self.settled() is None

    def add(
        self, samples: Mapping[str, Sequence[float]], ratios: Ratios, rows: Sequence[Row]
    ) -> Mapping[str, list[float]]:
        """Adds the samples of a believable launch; returns the samples of all launches."""
        self._judged += 1
        self.ratios.append(ratios)
        self.rows.append(rows)
        for name, values in samples.items():
            self.samples.setdefault(name, []).extend(values)
        return self.samples

    def disturb(self) -> None:
        """Records a launch that has ended and whose numbers say nothing about the machine."""
        self._judged += 1
        self.disturbed += 1

    @property
    def counted(self) -> int:
        """Number of launches that a verdict may be based on."""
        return self.launches - self.disturbed

    def settled(self) -> Exception | None:
        """The failure that a further attempt must raise before it has a job; None if unsettled."""
        if self.failure is None and self._judged < self.launches:
            self.failure = SanityError("it ended before its output could be judged")
        if self.failure is None:
            return None
        when = f"in launch {self.launches}" if self.launches else "before a launch"
        said = f"{self.failure}; settled {when}, not launched again"
        return type(self.failure)(said)


#: By the unique names of test, partition and stack.
_known: dict[tuple[str, str, str], Attempts] = {}


def attempts_of(key: tuple[str, str, str]) -> Attempts:
    """The attempts of a case so far, before one more attempt.

    After a pass the attempts begin anew, because a rerun of the whole session (``--reruns``) is
    judged by itself. The attempts continue if only this case is launched again, for a case that
    compares it.
    """
    known = _known.get(key)
    if known is None or (known.passed and not known.again):
        known = _known[key] = Attempts(earlier=known.earlier + known.counted if known else 0)
    known.passed = known.again = False
    return known


dependencies.install(
    lambda case: _known.get((case.check.unique_name, case.partition.fullname, case.environ.name))
)
