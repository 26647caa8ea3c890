"""BT-IO over the number of processes P on each file system: times, and both throughputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.report.charts import Chart, Series, count, others, positive, reasons
from assay.report.series import Missing
from assay.results.cases import Case
from assay.results.sanitize import finite

TIMES = "total time and time of I/O"
COMPUTING, WRITING = "throughput of computing", "throughput of I/O"

_UNITS = {"time": "s", "io_time": "s", "mops_total": "Mop/s", "io_rate": "MB/s"}


@dataclass(frozen=True)
class Run:
    """One run: `time` [s], its share `io_time` [s] in I/O, `mops` [Mop/s] and `io_rate` [MB/s]."""

    time: float
    io_time: float
    mops: float
    io_rate: float


@dataclass(frozen=True)
class Application:
    """The runs of one class in one way of writing.

    :ivar program: its name, as the test declares it.
    :ivar runs: (file system, P) -> run.
    :ivar missing: (file system, P) -> the reason why there is no run.
    """

    program: str
    npb_class: str
    way: str
    environ: str
    runs: Mapping[tuple[str, int], Run]
    missing: Mapping[tuple[str, int], str]

    @property
    def name(self) -> str:
        return " ".join(filter(None, (f"{self.program} class {self.npb_class}", self.way)))

    @property
    def parts(self) -> tuple[Missing, ...]:
        """The missing runs, as a figure names them."""
        return tuple((f"{at}, P = {count}", why) for (at, count), why in self.missing.items())

    @property
    def file_systems(self) -> list[str]:
        return sorted({partition for partition, _ in (*self.runs, *self.missing)})


def applications(cases: Iterable[Case]) -> list[Application]:
    """One entry for each class, subtype, library of MPI-IO and stack that has run."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        for figure in case.drawn_as("runs"):
            key = (figure.name, case.system, case.environ, others(case, "ranks", "npb_class"))
            groups.setdefault(key, []).append(case)
    return [
        application
        for (program, *_), members in sorted(groups.items(), key=lambda group: str(group[0]))
        for application in _applications(str(program), members)
    ]


def _applications(program: str, cases: Sequence[Case]) -> list[Application]:
    """The applications of cases that differ only in the number of processes and the class."""
    runs: dict[str, dict[tuple[str, int], Run]] = {}
    undone: dict[str, dict[tuple[str, int], list[Case]]] = {}
    for case in cases:
        found = _run(case)
        if found:
            of_class, processes, run = found
            runs.setdefault(of_class, {})[case.partition, processes] = run
        elif asked := count(case, "ranks"):
            of_class = case.parameters.get("npb_class", "")
            undone.setdefault(of_class, {}).setdefault((case.partition, asked), []).append(case)
    same = cases[0]
    way = ", ".join(filter(None, (same.parameters.get(key) for key in ("subtype", "mpi_io"))))

    def missing(of_class: str) -> dict[tuple[str, int], str]:
        """The missing runs; a case that ended before it chose its class may belong to any class."""
        lacking: dict[tuple[str, int], list[Case]] = {}
        for unknown in {"", of_class}:
            for at, members in undone.get(unknown, {}).items():
                lacking.setdefault(at, []).extend(members)
        return {at: reasons(members) for at, members in sorted(lacking.items())}

    return [
        Application(program, of_class, way, same.environ, there, missing(of_class))
        for of_class, there in sorted(runs.items())
    ]


def _run(case: Case) -> tuple[str, int, Run] | None:
    if not case.proven or any(case.units.get(name) != unit for name, unit in _UNITS.items()):
        return None
    row = case.rows[0]
    rates = positive(row, ("processes", "time", "mops_total", "io_rate"))
    # BT rounds times to 0.01 s, so the time of I/O may be 0.
    io_time = finite(row.get("io_time"))
    if rates is None or rates[0] != int(rates[0]) or io_time is None:
        return None
    processes, time, mops, io_rate = rates
    if not 0 <= io_time <= time:
        return None
    return str(row.get("class", "?")), int(processes), Run(time, io_time, mops, io_rate)


def charts(application: Application) -> list[Chart]:
    """The throughputs of computing and of I/O over P, with a line for each file system."""
    found = []
    for quantity, unit in ((COMPUTING, "Mop/s"), (WRITING, "MB/s")):
        lines = []
        for partition in application.file_systems:
            points = tuple(
                (float(processes), run.mops if quantity == COMPUTING else run.io_rate)
                for (at, processes), run in sorted(application.runs.items())
                if at == partition
            )
            if points:
                lines.append(Series(partition, points))
        found.append(
            Chart(quantity, unit, "processes P", tuple(lines), True, 10, missing=application.parts)
        )
    return found
