"""The attempts of one test case in one session of ReFrame (``--max-retries``), judged together.

A case that failed is run again by ReFrame, and what it says last is what counts there. Here every
launch counts: their samples accumulate, and a case that is settled is not launched again. With a
case that compares others, those are run again, too: else it would compare the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reframe.core.exceptions import SanityError

from assay.reframe_compat import dependencies

#: Test, partition and stack, by their unique names.
Key = tuple[str, str, str]


@dataclass
class Attempts:
    """What is known of one case.

    :ivar launches: how many of its jobs were begun.
    :ivar samples: of each metric the values of all launches, in their order.
    :ivar stagedir: where the last of them left its output.
    :ivar failure: what settled the case, if anything did.
    :ivar disturbed: launches that count for nothing, since the machine was busy.
    :ivar passed: the last of them did.
    :ivar again: a case that compares it asks for another launch.
    """

    launches: int = 0
    samples: dict[str, list[float]] = field(default_factory=dict)
    stagedir: str = ""
    failure: Exception | None = None
    disturbed: int = 0
    passed: bool = False
    again: bool = False
    _judged: int = 0

    def begin(self, stagedir: str) -> None:
        """A job is about to be submitted."""
        self.launches += 1
        self.stagedir = stagedir

    def add(self, samples: Mapping[str, Sequence[float]]) -> Mapping[str, list[float]]:
        """Adds those of a launch that can be believed; returns all."""
        self._judged += 1
        for name, values in samples.items():
            self.samples.setdefault(name, []).extend(values)
        return self.samples

    def disturb(self) -> None:
        """A launch ended whose numbers say nothing of the machine."""
        self._judged += 1
        self.disturbed += 1

    @property
    def counted(self) -> int:
        """Launches that a verdict may stand on."""
        return self.launches - self.disturbed

    def settle(self, failure: Exception) -> None:
        """No further launch can turn this into a pass."""
        self.failure = failure

    def settled(self) -> Exception | None:
        """What a further attempt must raise before its job exists, if it must."""
        if self.failure is None and self._judged < self.launches:
            self.failure = SanityError("it ended before its output could be judged")
        if self.failure is None:
            return None
        when = f"in launch {self.launches}" if self.launches else "before a launch"
        said = f"{self.failure}; settled {when}, not launched again"
        return type(self.failure)(said)


_known: dict[Key, Attempts] = {}


def of(key: Key) -> Attempts:
    """The attempts of a case so far, for one more.

    After a pass it begins anew, since a rerun of the whole session (``--reruns``) is judged by
    itself; unless only this case is launched again, for one that compares it.
    """
    known = _known.get(key)
    if known is None or (known.passed and not known.again):
        known = _known[key] = Attempts()
    known.passed = known.again = False
    return known


def _key(case: Any) -> Key:
    return case.check.unique_name, case.partition.fullname, case.environ.name


def _relaunched(case: Any) -> bool:
    """Whether a retry of a case launches it again: it was launched, and is not settled."""
    known = _known.get(_key(case))
    return known is not None and known.launches > 0 and known.settled() is None


def _launch_again(case: Any) -> None:
    if known := _known.get(_key(case)):
        known.again = True


dependencies.install(_relaunched, _launch_again)
