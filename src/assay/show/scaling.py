"""HPL over the number of nodes P and the order of the matrix N, and BT-IO over its processes.

T(P, N) is the time, S(P, N) = T(1, N) / T(P, N) the speed-up, SP(P, N) the sustained performance,
and SPF(P, N) = SP(P, N) / PP(P) its fraction of the peak performance of P nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.metrics import factor
from assay.parse.hpl import hpl_operations
from assay.quantities import spaced
from assay.show.figure import Figure, count, declared, of_lines, others, positive, reasons
from assay.show.plots import COUNTS, ORDERS, Line, Lines, Missing
from assay.store.cases import Case, grouped
from assay.store.sanitize import finite

#: Unit of performance.
RATE = "GFLOP/s"

#: From this time on [s], the printed time is accurate to 1 %; a shorter one follows from the rate.
ROUNDED = 1.0

TIME, SPEEDUP = "execution time T(P, N)", "speed-up S(P, N)"
PERFORMANCE, FRACTION = "sustained performance SP(P, N)", "fraction of peak SPF(P, N)"

TIMES = "total time and time of I/O"

#: What figures of BT-IO show -> unit, base of the scale (I/O may take 0 s), end of label -> column.
RUNS: dict[str, tuple[str, int, dict[str, str]]] = {
    TIMES: ("s", 0, {", total time": "time", ", time of I/O": "io_time"}),
    "throughput of computing": ("Mop/s", 10, {"": "mops_total"}),
    "throughput of I/O": ("MB/s", 10, {"": "io_rate"}),
}
_UNITS = {column: unit for unit, _, columns in RUNS.values() for column in columns.values()}

#: A file system, and the number of processes of a run on it.
Place = tuple[str, int]

#: A value for each number of nodes P and order N.
Values = dict[tuple[int, int], float]


@dataclass
class Study:
    """The measurements of one test on one partition with one stack.

    :ivar program: the program, by the place that the test declares for the figure.
    :ivar time: T [s] by (P, N); the shortest time if the same problem was run several times.
    :ivar performance: SP [GFLOP/s] by (P, N), of the same run.
    :ivar peak: PP [GFLOP/s] by P, if the record of the case has a peak.
    :ivar missing: each P without any time, and the reason.
    """

    test: str
    program: str
    partition: str
    environ: str
    time: Values = field(default_factory=dict)
    performance: Values = field(default_factory=dict)
    peak: dict[int, float] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)

    @property
    def speedup(self) -> Values:
        """S by (P, N), if one node solved the same N."""
        alone = {n: time for (p, n), time in self.time.items() if p == 1}
        return {(p, n): alone[n] / time for (p, n), time in self.time.items() if n in alone}

    @property
    def fraction(self) -> Values:
        """SPF by (P, N), if the peak of P nodes is known."""
        known = self.peak
        return {(p, n): its / known[p] for (p, n), its in self.performance.items() if p in known}

    def add(self, nodes: int, case: Case) -> None:
        """Adds what a case measured on so many nodes, if it is proven."""
        units = [case.parsed.units.get(name) for name in ("time", "performance")]
        for row in case.parsed.rows if case.proven and units == ["s", RATE] else ():
            found, time = positive(row, ("n", "performance")), finite(row.get("time"))
            if not found or found[0] != int(found[0]) or time is None or time < 0:
                continue
            # HPL rounds the time to 0.01 s and the rate to five digits.
            seconds = time if time >= ROUNDED else hpl_operations(found[0]) / (found[1] * 1e9)
            at = nodes, int(found[0])
            if seconds < self.time.get(at, math.inf):
                self.time[at], self.performance[at] = seconds, found[1]
        if stated := finite(case.proof.get("study_peak")):
            self.peak[nodes] = stated
            return
        for metric in case.metrics:
            of = metric.percent_of
            scale = factor(of.unit or metric.unit, RATE) if of else None
            if metric.name == "performance" and scale and of and of.peak and of.peak > 0:
                self.peak[nodes] = of.peak * scale


def studies(cases: Iterable[Case]) -> list[Study]:
    """One study for each test, partition and stack that solved at least one problem."""
    groups = grouped(
        ((case.test, case.system, case.partition, case.environ, others(case, "nodes")), (on, case))
        for case in cases
        if declared(case.figures, "scaling") and (on := count(case, "nodes"))
    )
    found = []
    for _, members in sorted(groups.items(), key=lambda group: str(group[0])):
        first = members[0][1]
        program = declared(first.figures, "scaling")[0].where(first.partition)
        study = Study(first.test, program, first.partition, first.environ)
        for nodes, of_count in sorted(grouped(members).items()):
            for case in of_count:
                study.add(nodes, case)
            if not any(nodes == measured for measured, _ in study.time):
                study.missing.append((f"P = {nodes}", reasons(of_count)))
        found.append(study)
    return [study for study in found if study.time]


def charts(study: Study) -> list[Lines]:
    """T and S over P with a line for each N, SP and SPF over N with a line for each P."""
    counts, orders = (sorted(set(each)) for each in zip(*study.time))
    # Large N may not fit on few nodes.
    holes = [(p, n) for p in counts for n in orders if (p, n) not in study.time]
    unsolved = [(f"P = {p}, N = {spaced(n)}", "not solved in this run") for p, n in holes]
    slower = [said for said, (p, _) in zip(unsolved, holes) if p > 1]
    alone = "one node did not solve it: no T(1, N)"
    no_start = [(f"N = {spaced(n)}", alone) for n in orders if (1, n) not in study.time]
    unknown = "the peak performance of so many nodes is not known"
    no_peak = [(f"P = {p}", unknown) for p in counts if p not in study.peak]
    speedup = study.speedup if any(p > 1 for p, _ in study.speedup) else {}
    found = []
    for name, unit, over, values, scale, base, ideal, lacks in (
        (TIME, "s", "nodes P", study.time, COUNTS, 10, False, unsolved),
        (SPEEDUP, "1", "nodes P", speedup, COUNTS, 2, True, [*slower, *no_start]),
        (PERFORMANCE, RATE, "order N", study.performance, ORDERS, 0, False, unsolved),
        (FRACTION, "1", "order N", study.fraction, ORDERS, 0, False, [*unsolved, *no_peak]),
    ):
        if lines := _lines(values, over):
            short, missing = " ".join(name.split()[-2:]), (*study.missing, *lacks)
            found.append(Lines(name, unit, over, lines, scale, base, ideal, missing, short))
    return found


def _lines(values: Values, over: str) -> tuple[Line, ...]:
    """From values by (P, N): a line over P for each N, or a line over N for each P."""
    name, which, x = ("N", 1, 0) if over.endswith("P") else ("P", 0, 1)
    ordered = sorted(values.items(), key=lambda one: (one[0][which], one[0][x]))
    lines = grouped((at[which], (float(at[x]), y)) for at, y in ordered)
    return tuple(Line(f"{name} = {spaced(n)}", tuple(at)) for n, at in lines.items())


def hpl(cases: Iterable[Case]) -> list[list[Figure]]:
    """The figures of T, S, SP and SPF of each study."""
    found: list[list[Figure]] = []
    for study in studies(cases):
        found.append([])
        for lines in charts(study):
            what = lines.quantity.split("(")[0]
            name = f"{study.test} {what} {study.partition} {study.environ}"
            title = f"{study.program}, {study.partition}, {study.environ}: {lines.quantity}"
            which = "N" if lines.scale == COUNTS else "P"
            found[-1].append(of_lines(name, title, lines, [(lines.quantity, study.program)], which))
    return found


def btio_figures(cases: Iterable[Case]) -> Iterator[list[Figure]]:
    """BT-IO: times and throughputs over the number of processes, for each class, way and stack."""
    groups = grouped(
        ((figure.name, case.system, case.environ, others(case, "ranks", "npb_class")), case)
        for case in cases
        for figure in declared(case.figures, "runs")
    )
    for (program, *_), members in sorted(groups.items(), key=lambda group: str(group[0])):
        done: dict[str, dict[Place, Mapping[str, float]]] = {}
        undone: list[tuple[str, Place, Case]] = []
        for case in members:
            if run := _run(case):
                of_class = str(case.parsed.rows[0].get("class", "?"))
                done.setdefault(of_class, {})[case.partition, int(run["processes"])] = run
            elif asked := count(case, "ranks"):
                of_class = case.values.get("npb_class", "")
                undone.append((of_class, (case.partition, asked), case))
        same = members[0]
        way = ", ".join(filter(None, map(same.values.get, ("subtype", "mpi_io"))))
        for of_class, found in sorted(done.items()):
            # A case that ended before it chose its class may belong to any class.
            lacking = grouped((at, case) for its, at, case in undone if its in ("", of_class))
            name = " ".join(filter(None, (f"{program} class {of_class}", way)))
            yield list(_of_runs(program, f"{name}, {same.environ}", found, lacking))


def _run(case: Case) -> dict[str, float] | None:
    """The numbers of the first row; None if they are not those of a run."""
    if not case.proven or any(case.parsed.units.get(name) != unit for name, unit in _UNITS.items()):
        return None
    row, names = case.parsed.rows[0], ("processes", "time", "mops_total", "io_rate")
    found, io_time = positive(row, names), finite(row.get("io_time"))
    if found is None or io_time is None or found[0] != int(found[0]):
        return None
    if not 0 <= io_time <= found[1]:  # BT rounds times to 0.01 s, so it may be 0
        return None
    return {**dict(zip(names, found)), "io_time": io_time}


def _of_runs(
    program: str,
    name: str,
    done: Mapping[Place, Mapping[str, float]],
    undone: Mapping[Place, Sequence[Case]],
) -> Iterator[Figure]:
    missing = tuple((f"{at}, P = {n}", reasons(its)) for (at, n), its in sorted(undone.items()))
    by_place = grouped((place, (float(n), run)) for (place, n), run in sorted(done.items()))
    for what, (unit, base, columns) in RUNS.items():
        lines = tuple(
            Line(f"{place}{part}", tuple((n, run[column]) for n, run in its))
            for place, its in by_place.items()
            for part, column in columns.items()
        )
        yield of_lines(
            f"{name} {what}",
            f"{name}: {what}",
            Lines(what, unit, "processes P", lines, COUNTS, base, missing=missing),
            [(f"{program}: {what}", place) for place in by_place],
            "file system",
        )
