"""The base classes of tests: each enforces evidence for what its tests measure.

This is the interface for tests, including tests in other repositories.
"""

from assay.checks.mpi import MpiCheck, MpiTransportCheck, TransportMixin
from assay.checks.nodes import AllNodesCheck
from assay.checks.storage import StorageMixin
from assay.checks.strict import StrictCheck
from assay.declared import Figure
from assay.judge import Peak

__all__ = [
    "AllNodesCheck",
    "Figure",
    "MpiCheck",
    "MpiTransportCheck",
    "Peak",
    "StorageMixin",
    "StrictCheck",
    "TransportMixin",
]
