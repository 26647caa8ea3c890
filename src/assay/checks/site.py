"""The site that ReFrame was started with: its folder, and what it expects."""

from __future__ import annotations

from pathlib import Path

import reframe.core.runtime as rt

from assay.judge import References


def site_directory() -> Path:
    """The folder of the site that ReFrame was started with: where its ``reframe.py`` lies."""
    return Path(rt.runtime().site_config.sources[-1]).resolve().parent


def site_references() -> References:
    """What that site expects.

    :raises assay.judge.ReferencesError: its ``references.yaml`` cannot be read.
    """
    return References.load(site_directory() / "references.yaml")
