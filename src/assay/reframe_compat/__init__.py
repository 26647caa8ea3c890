"""All that the suite uses of ReFrame beyond its documented interface, in one place.

Private names and replaced functions of ReFrame are in this package and nowhere else. The package
was tried with the versions in :data:`TRIED`. With another version, run ``tests/programs`` first.

================  ==============================================================================
``schedulers``    Slurm and local jobs that always end
``runner``        contexts around all cases of a run
``polling``       the pause between two looks at all cases, cut short when there is something to do
``dependencies``  launches a retried case again together with the cases that it compares
``warnings``      loads tests without reading their sources
``selection``     selects a place by its features only
``testcase``      facts about a test that have no public name
``command``       ReFrame's command line, while a site is loaded
``log``           ReFrame's log, read without ReFrame
================  ==============================================================================
"""

from __future__ import annotations

import functools

#: Versions of ReFrame that this package was tried with.
TRIED = ("4.9.3", "4.10.4")


@functools.cache
def install() -> None:
    """Replace the functions of ReFrame that have to be replaced, once."""
    # The imports are here because reports are also read on machines without ReFrame.
    from assay.reframe_compat import (  # noqa: PLC0415
        polling,
        runner,
        schedulers,
        selection,
        warnings,
    )

    warnings.install()
    schedulers.install()
    runner.install()
    polling.install()
    selection.install()
