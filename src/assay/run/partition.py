"""What a test needs to know about its partition, as the site describes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import reframe as rfm

from assay.judge import Peak, peak
from assay.metrics import factor
from assay.prove import groups
from assay.prove.groups import Between
from assay.run.site import misdescribed, site_directory


def hardware_peak(test: Any, role: str, quantity: str) -> float | None:
    """Peak of the hardware of a test's partition, None if unnamed; see :mod:`assay.judge.peaks`."""
    hardware = test.current_partition.extras.get("hardware", {})
    return peak(site_directory(), hardware, role, quantity)


def link_peaks(test: Any, metrics: Iterable[str], ways: int = 1) -> dict[str, Peak]:
    """The bandwidth of the link as the peak of these rates; empty if the link is unnamed.

    :param ways: number of directions whose bytes the metrics count.
    """
    link = ways * (hardware_peak(test, "link", "bandwidth") or 0)
    peaks = {name: link * (factor("MB/s", test.declares[name]) or 0) for name in metrics}
    return {name: Peak("link, hardware.yaml", value) for name, value in peaks.items() if value}


def halves(test: Any, nodes: int) -> list[str]:
    """Options of the job by which half of its nodes are in each group; else a skipped case."""
    try:
        return list(test.between.halves(nodes))
    except ValueError as error:
        test.leave_out("too-small", True, str(error))
        return []


class OnPartition(rfm.RegressionTestPlugin):
    """The part of :class:`assay.run.strict.StrictCheck` that knows its partition."""

    def leave_out(self, kind: str, condition: object, why: str) -> None:
        """Skips the case if the condition holds.

        :param kind: one of :data:`assay.store.promise.KINDS`, by which sites allow skips.
        """
        self.skip_if(condition, f"{kind}: {why}")

    def _undescribed(self, condition: object, what: str) -> None:
        """Skips the case if the site does not say what it needs to know; the reason names it."""
        name = self.current_partition.name
        self.leave_out("undescribed", condition, f"partition {name!r}: {what}")

    def partition_extra(self, name: str) -> Any:
        """An extra of the partition; without it the case is skipped."""
        extras = self.current_partition.extras
        self._undescribed(name not in extras, f"extras: {type(self).__name__} needs {name!r}")
        return extras[name]

    def stack_extra(self, name: str) -> Any:
        """An extra of the stack; without it the case is skipped."""
        stack = self.current_environ
        why = f"the stack {stack.name}: extras: {type(self).__name__} needs {name!r}"
        self.leave_out("undescribed", name not in stack.extras, why)
        return stack.extras[name]

    @property
    def between(self) -> Between | None:
        """The link between two groups of nodes that the partition is; None if it is none.

        :raises reframe.core.exceptions.ConfigError: the site does not describe it, or wrongly.
        """
        if "across" not in self.current_partition.features:
            return None
        try:
            return groups.parse(self.partition_extra("between"))
        except ValueError as error:
            raise misdescribed(self.current_partition, f"extras: between: {error}") from None

    def _cores_of_a_node(self) -> int:
        """How many cores a node of the partition has; the case is skipped if nothing says it."""
        its = self.current_partition.processor
        why = "processor: num_cpus is missing; the number of ranks follows from it"
        self._undescribed(not its.num_cpus, why)
        return int(min(its.num_cores or its.num_cpus, its.num_cpus))
