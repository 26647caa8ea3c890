"""The site that ReFrame was started with: its folder and its references."""

from __future__ import annotations

from pathlib import Path

import reframe.core.runtime as rt

from assay.judge import References


def site_directory() -> Path:
    """The folder of the site that ReFrame was started with; it holds the site's ``reframe.py``."""
    return Path(rt.runtime().site_config.sources[-1]).resolve().parent


def site_references() -> References:
    """The references of the site that ReFrame was started with.

    :raises assay.judge.ReferencesError: its ``references.yaml`` cannot be read.
    """
    return References.load(site_directory() / "references.yaml")
