"""The base classes of tests: each enforces evidence for what its tests measure.

This is the interface for tests, including tests in other repositories.
"""

from assay.declared import Figure
from assay.judge import Peak
from assay.run.mpi import MpiCheck, MpiTransportCheck, TransportMixin
from assay.run.storage import StorageMixin
from assay.run.strict import StrictCheck

__all__ = [
    "Figure", "MpiCheck", "MpiTransportCheck", "Peak", "StorageMixin", "StrictCheck",
    "TransportMixin",
]  # fmt: skip
