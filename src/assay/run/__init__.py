"""The base classes of tests: each enforces evidence for what its tests measure.

This is the interface for tests, including tests in other repositories. A class is loaded when a
test names it: a test of files needs nothing of MPI.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.declared import Figure
    from assay.judge import Peak
    from assay.run.mpi import MpiCheck, TransportMixin
    from assay.run.storage import StorageMixin
    from assay.run.strict import StrictCheck

__all__ = [
    "Figure", "MpiCheck", "Peak", "StorageMixin", "StrictCheck", "TransportMixin",
]  # fmt: skip

#: Name -> the module that has it.
_HOME = {
    "Figure": "assay.declared", "Peak": "assay.judge", "StrictCheck": "assay.run.strict",
    "StorageMixin": "assay.run.storage", "MpiCheck": "assay.run.mpi",
    "TransportMixin": "assay.run.mpi",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__  # for autodoc and completion
