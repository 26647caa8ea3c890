"""The site that ReFrame was started with: its folder and its references."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt
from reframe.core.exceptions import ConfigError

from assay.judge import References


def site_directory() -> Path:
    """The folder of the site that ReFrame was started with; it holds the site's ``reframe.py``."""
    return Path(rt.runtime().site_config.sources[-1]).resolve().parent


def site_references() -> References:
    """The references of the site that ReFrame was started with.

    All cases of a run are judged by the same references: a file that changes during the run counts
    in the next one.

    :raises assay.judge.ReferencesError: its ``references.yaml`` cannot be read.
    """
    return _read_once(site_directory() / "references.yaml")


# A run looks up hundreds of metrics, and strict YAML takes milliseconds to read.
_read_once = cache(References.load)


def misdescribed(partition: Any, what: str) -> ConfigError:
    """The error for a partition that the site describes wrongly; it names the file."""
    file = rt.runtime().site_config.sources[-1]
    return ConfigError(f"{file}: partition {partition.name!r}: {what}")
