"""The test of the suite that has an output, and the values of the output by its metrics' names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.parse import Parsed, hpl
from assay.workloads.osu import POINT_TO_POINT, SIZES

#: A case of the suite, name, value and unit of a metric of it.
Metric = tuple[dict[str, Any], str, float, str]


def metrics_of(parsed: Parsed) -> Iterator[Metric]:
    """The metrics of an output, by the names that the tests of the suite give them."""
    case, rows = case_of(parsed), parsed.rows
    if parsed.family == "nccl-tests":
        yield from _of_nccl(parsed)
        return
    if parsed.program == hpl.HOST:  # of a sweep, the best one of the largest matrices
        largest = max((row["n"] for row in rows), default=0)
        rates = [float(row["performance"]) for row in rows if row["n"] == largest]
        yield from [(case, "performance", max(rates), "GFLOP/s")] if rates else []
        return
    if parsed.family == "hpcg":
        yield case, "rating", float(parsed.facts["rating"]), "GFLOP/s"
        return
    for row in rows if case["test"] else ():
        size = size_of(row)
        at = SIZES.get(size, "")
        if at or len(rows) == 1:
            for column, unit in parsed.units.items():
                if column in row:
                    yield case, f"{column}_{at}" if at else column, float(row[column]), unit
        yield from _of_kernel(parsed, case, row)


#: Family -> the column that names what was measured, that of the rate, and the metric of each.
_KERNELS: dict[str, tuple[str, str, str]] = {
    "stream": ("function", "rate", "{}"),
    "babelstream": ("kernel", "bandwidth", "{}"),
    "nvbandwidth": ("test", "bandwidth", "{}_median"),
    "bandwidth-test": ("way", "bandwidth", "{}_median"),
}
_WAYS = {"H2D": "host_to_device", "D2H": "device_to_host"}


def _of_kernel(parsed: Parsed, case: dict[str, Any], row: Mapping[str, Any]) -> Iterator[Metric]:
    """The rate of a program that has one row for each thing that it measures."""
    if parsed.family in _KERNELS and row.get("memory", "pinned") == "pinned":
        of, column, metric = _KERNELS[parsed.family]
        said = str(row[of])
        name = _WAYS.get(said, said.lower().removesuffix("_memcpy_ce"))
        metric = "{}_median" if case["test"] == "BabelStreamGpu" else metric
        yield case, metric.format(name), float(row[column]), parsed.units[column]
    elif parsed.program == hpl.NVIDIA:  # one rank for each GPU, and the peak is that of one
        ranks = int(row["p"]) * int(row["q"])
        rate = float(row["performance"]) / ranks
        yield {"test": "GpuHplStudy"}, "performance", rate, parsed.units["performance"]


def _of_nccl(parsed: Parsed) -> Iterator[Metric]:
    """The least bus bandwidth of long messages: from 1 GiB on it no longer grows."""
    facts, worst = parsed.facts, dict[str, float]()
    for row in parsed.rows:
        if int(row["size"]) >= 1 << 30:
            rate = max(float(row[column]) for column in row if column.startswith("bus_bandwidth"))
            name = str(row.get("test") or parsed.program).removesuffix("_perf")
            worst[name] = min(rate, worst.get(name, rate))
    test = "Nccl" if facts.get("nodes") == 1 else "NcclBetween"
    for name, rate in worst.items():
        case = {"test": test, "gpus": facts.get("ranks", 0), "collective": f"{name}:default"}
        yield case, "bus_bandwidth_1024MiB", rate, "GB/s"


#: Family -> the test of the suite whose output it is.
_TESTS = {
    **{"ib-perftest": "IbPerftest", "netpipe": "NetPipe", "ucx-perftest": "UcxPerftest"},
    **{"nvbandwidth": "Nvbandwidth", "bandwidth-test": "EachGpu", "stream": "Stream"},
    **{"babelstream": "BabelStreamGpu", "hpl": "Hpl", "hpcg": "Hpcg", "hpcc": "Hpcc"},
    **{"osu": "Osu", "osu-py": "OsuPy", "imb": "Imb"},
}


def case_of(parsed: Parsed) -> dict[str, Any]:
    """Test and parameters of the case of the suite that has such outputs; no test: none has."""
    program, facts = parsed.program, parsed.facts
    name = program.removeprefix("osu_")
    case = {"test": _TESTS.get(parsed.family, ""), "program": program, "benchmark": name}
    if parsed.family == "imb":
        case["benchmark"] = program.split()[1]
    elif facts.get("accelerator"):
        buffers = facts.get("buffers") or {}
        where = "".join(str(buffers.get(end, "?"))[0].upper() for end in ("send", "receive"))
        case |= {"test": "OsuGpu", "buffers": where, "configuration": "all"}
    elif case["test"].startswith("Osu") and name not in POINT_TO_POINT:
        case["test"] = ""  # of a collective the number of ranks decides, which the text hides
    elif facts.get("implementation") == "OpenMP":
        case["test"] = "BabelStream"
    return case


def size_of(row: Mapping[str, Any]) -> int:
    """The message size of a row [B]; 0 if it has none, or the size is that of a grid."""
    size = row.get("size", 0)
    return size if isinstance(size, int) else 0
