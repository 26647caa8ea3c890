"""What a test needs to know about its partition, as the site describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reframe.core.exceptions import ConfigError

from assay.judge import Peak
from assay.judge import peak as hardware_peak
from assay.prove import accelerator, gpu_health, groups
from assay.prove.accelerator import Accelerator
from assay.prove.groups import Between
from assay.run.site import misdescribed, site_directory


class OnPartition:
    """A base of :class:`assay.run.strict.StrictCheck`, which adds the attributes of ReFrame."""

    if TYPE_CHECKING:
        current_partition: Any
        current_environ: Any
        num_gpus_per_node: int

        def skip_if(self, condition: object, message: str) -> None: ...

    def leave_out(self, kind: str, condition: object, why: str) -> None:
        """Skips the case if the condition holds.

        :param kind: one of :data:`assay.store.promise.KINDS`, by which sites allow skips.
        """
        self.skip_if(condition, f"{kind}: {why}")

    def _undescribed(self, condition: object, what: str) -> None:
        """Skips the case if the site does not say what it needs to know; the reason names it."""
        name = self.current_partition.name
        self.leave_out("undescribed", condition, f"partition {name!r}: {what}")

    def hardware_peak(self, role: str, quantity: str) -> float | None:
        """Peak of the partition's hardware, None if unnamed; see :mod:`assay.judge.peaks`."""
        hardware = self.current_partition.extras.get("hardware", {})
        return hardware_peak(site_directory(), hardware, role, quantity)

    def link_peaks(self, metrics: Iterable[str], ways: int = 1) -> dict[str, Peak]:
        """The bandwidth of the link as the peak of these metrics; empty if the link is unnamed.

        :param ways: number of directions whose bytes the metrics count.
        """
        link = self.hardware_peak("link", "bandwidth")
        if link is None:
            return {}
        return dict.fromkeys(metrics, Peak("link, hardware.yaml", ways * link))

    def misdescribed(self, what: str) -> ConfigError:
        """The error for a partition that the site describes wrongly; it names the file."""
        return ConfigError(misdescribed(self.current_partition.name, what))

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
    def between(self) -> Between:
        """The link between two groups of nodes that the partition is.

        :raises reframe.core.exceptions.ConfigError: the site does not describe it, or wrongly.
        """
        try:
            return groups.parse(self.partition_extra("between"))
        except ValueError as error:
            raise self.misdescribed(f"extras: between: {error}") from None

    def halves(self, nodes: int) -> list[str]:
        """Options of the job by which half of its nodes are in each group; else a skipped case."""
        try:
            return self.between.halves(nodes)
        except ValueError as error:
            self.leave_out("too-small", True, str(error))
            return []

    def gpus_of_a_node(self) -> int:
        """How many GPUs a node of the partition has; the case is skipped if nothing says it."""
        devices = self.current_partition.devices
        there = sum(d.num_devices for d in devices if d.device_type == "gpu")
        self._undescribed(not there, "devices: the number of GPUs (type gpu) is missing")
        return int(there)

    def cores_of_a_node(self) -> int:
        """How many cores a node of the partition has; the case is skipped if nothing says it."""
        its = self.current_partition.processor
        why = "processor: num_cpus is missing; the number of ranks follows from it"
        self._undescribed(not its.num_cpus, why)
        return int(min(its.num_cores or its.num_cpus, its.num_cpus))

    def vendor_of_gpus(self) -> Accelerator | None:
        """The vendor of the GPUs of the partition; None if it has none, or those of several."""
        features = self.current_partition.features
        vendors = accelerator.named(features) or accelerator.built(self.current_environ.features)
        return vendors[0] if "gpu" in features and len(vendors) == 1 else None

    def take_gpus_to_read(self) -> None:
        """Requests all GPUs of a node: a job under Slurm does not see others."""
        if (vendor := self.vendor_of_gpus()) and vendor.state:
            self.num_gpus_per_node = self.gpus_of_a_node()

    def unfit_gpus(self, found: Mapping[str, Any]) -> list[str]:
        """What is wrong with the GPUs of a node, one line each.

        :param found: what :func:`assay.node.provenance.collect` found on it.
        """
        vendor = self.vendor_of_gpus()
        if vendor is None or not vendor.state:
            return []
        reading = gpu_health.parse(vendor, found.get("gpus") or "")
        partition = self.current_partition
        health = partition.extras.get("health", {})
        return gpu_health.unfit(vendor, reading, self.gpus_of_a_node(), partition.features, health)

    def take_gpus(self, wanted: int) -> None:
        """Requests `wanted` GPUs on each node; skips the case if a node has fewer."""
        there = self.gpus_of_a_node()
        name = self.current_partition.name
        why = f"{wanted} GPUs are needed on a node, {name} has {there}"
        self.leave_out("too-small", wanted > there, why)
        self.num_gpus_per_node = wanted
