"""The figures that validate a cluster, and the ones that a session does not have.

The figures show point-to-point and collective communication (between GPUs in a node, between GPUs
of different nodes, and between hosts), HPL over nodes, and IOzone and BT-IO on each file system.
The list is data; each drawn figure states its own entry
(:attr:`assay.report.figure.Figure.shows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.report import btio, scaling
from assay.report.charts import reasons
from assay.report.figure import Figure, Shown
from assay.report.series import Curves, Missing
from assay.results import locality
from assay.results.cases import Case
from assay.results.locality import BETWEEN, IN_NODE

COLLECTIVES = ("bcast", "gather", "reduce", "allreduce", "alltoall")

#: Numbers of ranks of a collective.
RANKS = ("2", "3", "4")

BTIO_TIME = "BT-IO: total time and time of I/O"

HOSTS = "between hosts"

_POINT_TO_POINT = {"latency": "latency", "bw": "bandwidth"}
_IOZONE = {
    ("read", "cached"): "IOzone: read",
    ("write", "cached"): "IOzone: write",
    ("write", "o_sync"): "IOzone: SYNC write",
}


@dataclass(frozen=True)
class Wanted:
    """One figure at one place.

    :ivar tests: the tests that measure it; the first one is named if no test was selected.
    :ivar parameters: the parameters of the cases that measure it.
    :ivar place: the place of the GPUs (in a node, between nodes); "" for any.
    :ivar partition: the file system; "" for any partition.
    :ivar lack: the reason why it may be missing although its cases were measured.
    """

    figure: str
    at: str
    tests: tuple[str, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
    partition: str = ""
    lack: str = ""


@dataclass(frozen=True)
class Absent:
    """A figure, or a part of a figure, without a measurement in a session."""

    figure: str
    at: str
    part: str
    test: str
    why: str


def _between_gpus(place: str) -> str:
    return f"between GPUs {place}"


def _communication() -> Iterator[Wanted]:
    for place in (IN_NODE, BETWEEN):
        at = _between_gpus(place)
        for benchmark, quantity in _POINT_TO_POINT.items():
            of_gpu = {"benchmark": benchmark, "buffers": "DD"}
            yield Wanted(f"point to point: {quantity}", at, ("OsuGpu",), of_gpu, place)
        for name in COLLECTIVES:
            yield Wanted(name, at, ("OsuGpuCollective",), {"benchmark": name}, place)
    for benchmark, quantity in _POINT_TO_POINT.items():
        yield Wanted(f"point to point: {quantity}", HOSTS, ("Osu",), {"benchmark": benchmark})
    for name in COLLECTIVES:
        yield Wanted(name, HOSTS, ("OsuCollective", "Osu"), {"benchmark": name})


def _computation() -> Iterator[Wanted]:
    lacks = {
        scaling.TIME: "",
        scaling.SPEEDUP: "no N was solved both on one node and on several",
        scaling.PERFORMANCE: "",
        scaling.FRACTION: "the peak performance of the nodes is not known",
    }
    for test, program in scaling.TESTS.items():
        for quantity, lack in lacks.items():
            yield Wanted(quantity, program, (test,), lack=lack)


def _storage(partition: str) -> Iterator[Wanted]:
    at = partition or "any file system"
    for (_, mode), figure in _IOZONE.items():
        yield Wanted(figure, at, ("Iozone",), {"sync": mode}, partition=partition)
    for figure in (BTIO_TIME, f"BT-IO: {btio.COMPUTING}", f"BT-IO: {btio.WRITING}"):
        yield Wanted(figure, at, ("BtIo",), partition=partition)


def wanted(cases: Iterable[Case]) -> list[Wanted]:
    """All figures of the validation; those of storage once for each file system of the session."""
    on = sorted({case.partition for case in cases if case.test in ("Iozone", "BtIo")})
    storage = [item for partition in on or [""] for item in _storage(partition)]
    return [*_communication(), *_computation(), *storage]


def absent(cases: Sequence[Case], figures: Iterable[Figure]) -> list[Absent]:
    """The missing figures of a session: whole figures first, then parts of figures."""
    drawn = list(figures)
    shown = {key for figure in drawn for key in figure.shows}
    where = locality.of_partitions(cases)
    whole = []
    for item in wanted(cases):
        if (item.figure, item.at) in shown:
            continue
        found = [case for case in cases if _is_of(case, item, where)]
        unproven = [case for case in found if not case.proven]
        why = reasons(unproven or found)
        if item.lack and len(unproven) < len(found):
            why = f"{item.lack}; {why}" if unproven else item.lack
        whole.append(Absent(item.figure, item.at, "", item.tests[0], why))
    parts = [
        Absent(figure.title, "", part, "", why) for figure in drawn for part, why in figure.missing
    ]
    return whole + parts


def _is_of(case: Case, item: Wanted, where: Mapping[locality.Partition, str]) -> bool:
    """Whether a case should measure the figure; a case with an unknown place may be one."""
    return (
        case.test in item.tests
        and all(case.parameters.get(key) == value for key, value in item.parameters.items())
        and (not item.place or where.get((case.system, case.partition), item.place) == item.place)
        and item.partition in ("", case.partition)
    )


def unselected(group: Curves) -> tuple[Missing, ...]:
    """Lines of a figure that no case of the session should measure."""
    ways, counts = ({pair[n] for pair in group.planned} for n in (0, 1))
    found: list[str] = []
    if group.on_gpu and group.place and group.buffers != "HH":
        found += [name for name in locality.configurations(group.place) if name not in ways]
    if group.benchmark in COLLECTIVES and any(counts):
        found += [f"P = {count}" for count in RANKS if count not in counts]
    return tuple((part, reasons([])) for part in found)


def of_curves(test: str, benchmark: str, buffers: str, place: str) -> Shown | None:
    """The figure of the validation that the curves of a test are; None if there is no such one."""
    if test in ("OsuGpu", "OsuGpuCollective"):
        at = HOSTS if buffers == "HH" else _between_gpus(place)
        if buffers in ("DH", "HD"):
            return None
    elif test in ("Osu", "OsuCollective"):
        at = HOSTS
    else:
        return None
    if benchmark in COLLECTIVES:
        return benchmark, at
    quantity = _POINT_TO_POINT.get(benchmark)
    return (f"point to point: {quantity}", at) if quantity else None


def of_heat_map(test: str, operation: str, mode: str, partition: str) -> Shown | None:
    """The figure of the validation that a heat map is; None if there is no such one."""
    figure = _IOZONE.get((operation, mode)) if test == "Iozone" else None
    return (figure, partition) if figure else None
