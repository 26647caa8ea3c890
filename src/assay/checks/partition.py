"""What a test needs to know about its partition, as the site describes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reframe.core.exceptions import ConfigError

from assay.checks.site import site_directory
from assay.checks.verdict import Peak
from assay.judge import peak as hardware_peak


class OnPartition:
    """A base of :class:`assay.checks.strict.StrictCheck`, which adds the attributes of ReFrame."""

    if TYPE_CHECKING:
        current_partition: Any
        num_gpus_per_node: int

        def skip_if(self, condition: object, message: str) -> None: ...

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
        name = self.current_partition.name
        return ConfigError(f"{site_directory() / 'reframe.py'}: partition {name!r}: {what}")

    def partition_extra(self, name: str) -> Any:
        """An extra of the partition that the test cannot do without.

        :raises reframe.core.exceptions.ConfigError: the site does not set it.
        """
        partition = self.current_partition
        if name not in partition.extras:
            raise self.misdescribed(
                f"extras: {type(self).__name__} needs {name!r}; site-config/vocabulary.yaml says "
                "what it is"
            )
        return partition.extras[name]

    def gpus_of_a_node(self) -> int:
        """How many GPUs a node of the partition has.

        :raises reframe.core.exceptions.ConfigError: the site does not state the number.
        """
        partition = self.current_partition
        there = sum(d.num_devices for d in partition.devices if d.device_type == "gpu")
        if not there:
            raise ConfigError(
                f"{partition.fullname}: devices: the number of GPUs (type gpu) is missing"
            )
        return int(there)

    def take_gpus(self, wanted: int) -> None:
        """Requests `wanted` GPUs on each node; skips the case if a node has fewer."""
        there = self.gpus_of_a_node()
        name = self.current_partition.name
        self.skip_if(wanted > there, f"{wanted} GPUs are needed on a node, {name} has {there}")
        self.num_gpus_per_node = wanted
