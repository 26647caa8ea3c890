"""All that the suite uses of ReFrame beyond its documented interface, in one place.

Private names and replaced functions of ReFrame are in this package and nowhere else. The package
was tried with the versions in :data:`TRIED`. With another version, run ``tests/programs`` first.
"""

from __future__ import annotations

import functools
from importlib import import_module

#: Versions of ReFrame that this package was tried with.
TRIED = ("4.9.3", "4.10.4")


@functools.cache
def install() -> None:
    """Replace the functions of ReFrame that have to be replaced, once."""
    # Imported here, because reports are also read on machines without ReFrame.
    for part in ("secrets", "warnings", "schedulers", "runner", "polling", "selection"):
        import_module(f"{__name__}.{part}").install()
