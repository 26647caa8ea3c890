"""The site that ReFrame was started with: its folder and its references."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt
from reframe.core.exceptions import ConfigError

from assay.judge import Peak, References, peak
from assay.metrics import factor
from assay.reframe_compat import runner, testcase


def site_file() -> Path:
    """The file of the site that ReFrame was started with."""
    return Path(rt.runtime().site_config.sources[-1]).resolve()


def site_directory() -> Path:
    """The folder of that file."""
    return site_file().parent


def site_references() -> References:
    """The references of the site that ReFrame was started with.

    All cases of a run are judged by the same references: a file that changes during the run counts
    in the next one.

    :raises assay.judge.ReferencesError: its ``references.yaml`` cannot be read.
    """
    return _read_once(site_directory() / "references.yaml")


# A run looks up hundreds of metrics, and strict YAML takes milliseconds to read.
_read_once = cache(References.load)


def environments(partition: Any, stack: Any) -> tuple[Any, ...]:
    """The environments of the site that a job has, in the order of their loading."""
    return rt.runtime().system.preload_environ, partition.local_env, stack


def given_environment(of_site: Sequence[Any]) -> dict[str, str]:
    """The environment of this process without what belongs to the site.

    ReFrame loads the modules and variables of a system into it. A person may have loaded modules
    that the site names, or found them loaded at login.

    :param of_site: its environments, see :func:`environments`.
    """
    modules, of_system = rt.runtime().modules_system, of_site[0].env_vars
    named = [each for environ in of_site for each in environ.modules_detailed]
    with rt.temp_environment():
        for module in reversed(named):
            if modules.is_module_loaded(module["name"]):
                modules.unload_module(**module)
        return {name: it for name, it in os.environ.items() if name not in of_system}


def misdescribed(partition: Any, what: str) -> ConfigError:
    """The error for a partition that the site describes wrongly; it names the file."""
    return ConfigError(f"{site_file()}: partition {partition.name!r}: {what}")


def hardware_peak(test: Any, role: str, quantity: str) -> float | None:
    """Peak of the hardware of a test's partition, None if unnamed; see :mod:`assay.judge.peaks`."""
    hardware = test.current_partition.extras.get("hardware", {})
    return peak(site_directory(), hardware, role, quantity)


def link_peaks(test: Any, metrics: Iterable[str], ways: int = 1) -> dict[str, Peak]:
    """The bandwidth of the link as the peak of these rates; empty if the link is unnamed.

    :param ways: number of directions whose bytes the metrics count.
    """
    link = ways * (hardware_peak(test, "link", "bandwidth") or 0)
    peaks = {name: link * (factor("MB/s", test.declares[name]) or 0) for name in metrics}
    return {name: Peak("link, hardware.yaml", value) for name, value in peaks.items() if value}


@contextlib.contextmanager
def _runs_something(run: Any, cases: Sequence[Any]) -> Iterator[None]:
    """Makes a run red in which no case of Assay ran; ReFrame itself would end with 0."""
    yield
    if not cases:
        raise runner.NotAccepted(
            f"no case is selected; type assay check -C {site_file()}: it says what is missing"
        )
    ours = sum(testcase.of_assay(check) for check, *_ in cases)
    skipped, _ = runner.left_out(run)
    reasons = [why for (check, *_), why in skipped if testcase.of_assay(check)]
    if ours and len(reasons) == ours:
        raise runner.NotAccepted(f"no case ran, {ours} were skipped: {'; '.join({*reasons})}"[:500])


# Also for a configuration that knows nothing of Assay, so that its run does not end silently.
runner.around(_runs_something)
