"""All that the suite uses of ReFrame beyond its documented interface, in one place.

Private names and replaced functions of ReFrame are in this package and nowhere else. Tried with the
versions in :data:`TRIED`; with another version, try ``tests/programs`` first.

================  ==============================================================================
``schedulers``    Slurm and local jobs that always end
``runner``        something to do around all cases of a run
``dependencies``  a case that is retried is launched again together with what it compares
``warnings``      loading tests without reading their sources
``testcase``      what a test does not say of itself by public names
``command``       the command line, while a site is loaded
``log``           ReFrame's log, read without ReFrame
``store``         the tables of ReFrame's results store
================  ==============================================================================
"""

from __future__ import annotations

import functools

#: Versions of ReFrame that all this was tried with.
TRIED = ("4.10.4",)


@functools.cache
def install() -> None:
    """Replace what has to be replaced in ReFrame, once."""
    # Reports are read where there is no ReFrame.
    from assay.reframe_compat import runner, schedulers, warnings  # noqa: PLC0415

    warnings.install()
    schedulers.install()
    runner.install()
