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

from assay.judge import Hardware, Peak, References, peak, peaks
from assay.judge.peaks import MOST_OF_PEAK
from assay.metrics import UNITS
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


def _named(test: Any, role: str) -> Hardware | None:
    """What plays a role on a test's partition; None if the partition does not name it."""
    hardware = test.current_partition.extras.get("hardware", {})
    if role not in hardware:
        return None
    peaks.check_hardware(site_directory(), {role: hardware[role]})
    return peaks.hardware(site_directory())[role][hardware[role]]


def processor_peak(test: Any, cores: int) -> float | None:
    """What so many cores of a test's partition compute at their nominal clock [GFLOP/s]."""
    processor = _named(test, "processor")
    # The models of most processors have different clocks; the site states that of its own.
    clock = test.current_partition.extras.get("clock_hz", 0) / 1e9 or None
    return peaks.processor_fp64(processor, cores, clock) if processor else None


def most_of_clock(test: Any) -> float | None:
    """The most that a core reaches of :func:`processor_peak`; None if its boost is not known."""
    processor = _named(test, "processor")
    if processor is None or processor.boost is None or processor.clock is None:
        return None
    return MOST_OF_PEAK * processor.boost / processor.clock


def memory_peak(test: Any) -> float | None:
    """What the memory of a node of a test's partition carries [MB/s]; None if it is unnamed."""
    processor, its = _named(test, "processor"), test.current_partition.processor
    sockets = its.num_sockets
    if processor is None or not sockets:
        return None
    return peaks.memory_bandwidth(processor, sockets, _named(test, "memory"))


def hardware_peaks(
    test: Any, metrics: Iterable[str], of: str, times: float = 1, most: float | None = MOST_OF_PEAK
) -> dict[str, Peak]:
    """A quantity of the partition's hardware as the peak of these rates; empty if it is unnamed.

    :param of: role and quantity, see :class:`assay.judge.Peak`.
    :param times: how much of it the metrics have, such as links, directions, cores or nodes. Of a
        rate of bytes, FLOP and operations have as much of it as they have for each byte.
    """
    role, _, quantity = of.partition(".")
    if of == "processor.fp64":
        value, unit, most = processor_peak(test, 1), "GFLOP/s", most_of_clock(test)
    elif of == "memory.bandwidth":
        value, unit = memory_peak(test), "MB/s"
    else:
        value, unit = hardware_peak(test, role, quantity), peaks.UNITS.get(quantity, "MB/s")
    if value is None:
        return {}
    size = value * times * UNITS[unit].factor
    units = {name: UNITS.get(test.declares[name]) for name in metrics}
    return {
        name: Peak(f"{role}, {peaks.FILE}", size / its.factor, most, of)
        for name, its in units.items()
        if its and its.base in ("B/s", "FLOP/s", "op/s")
    }


def link_peaks(test: Any, metrics: Iterable[str], ways: int = 1) -> dict[str, Peak]:
    """The bandwidth of the link as the peak of these rates; empty if the link is unnamed.

    :param ways: number of directions whose bytes the metrics count.
    """
    return hardware_peaks(test, metrics, "link.bandwidth", ways)


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
