"""The CSV report of SPEC MPI2007 and SPEChpc 2021, which ``runspec`` and ``runhpc`` write.

SPEC licenses these suites, and nobody here has a copy. The parser was therefore never tried on a
real report. It follows the layout that is public: the CSV reports of SPEC's results pages, and the
words that SPEC's documentation uses for a field (``Docs/result-fields.html`` of each suite). For
SPEChpc the layout of the same tools for CPU 2017 is assumed. Columns are found by their words, and
a report without a column that is needed is an error.

A report has these parts: the line ``valid,1``; the table of all iterations; the table of the
selected ones; a line with the metric; descriptions; the errors of an invalid run; a last line with
the versions.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence

from assay.parse.reading import Parsed, ParseError, Value, integer, real, split, without_warnings

#: Suite in the last line -> name of the suite, pattern of its metric.
_SUITES = (
    (re.compile(r"Tested with SPEC MPI2007\b"), "MPI2007", re.compile(r"SPECmpi[ML]_base2007$")),
    (re.compile(r"Tested with SPEC ?hpc\W.*2021"), "SPEChpc2021", re.compile(r"SPEChpc.*_base$")),
)
_VERSION = re.compile(r"Tested with SPEC.*? v(\d+(?:\.\d+)*)")
_END = re.compile(r'CSV"?,? ?"?formatter v\d+\.("?)$')
_VALID = re.compile(r'valid,"?([01])"?\b')
#: How much of the line with the versions is read [characters].
_LONG = 200

_FULL, _SELECTED, _ERRORS = "Full Results Table", "Selected Results Table", "ERRORS"

#: Column of the rows -> pattern of the heading that holds it.
_COLUMNS = {
    "ranks": re.compile(r"Base (?:# )?Ranks$"),
    "time": re.compile(r"(?:Est\. )?Base Run Time$"),
    "ratio": re.compile(r"(?:Est\. )?Base Ratio$"),
    "status": re.compile(r"Base Status$"),
}
UNITS = {"iteration": "1", "ranks": "1", "time": "s", "ratio": "1", "selected": "1"}

#: The statuses of an iteration that succeeded.
_SUCCESS = ("S", "1")

#: A metric has three digits. A time times its ratio is the time of the reference machine.
_METRIC, _REFERENCE = 0.006, 0.01

_Table = Sequence[Mapping[str, str]]


def recognise(text: str) -> bool:
    """Whether `text` is a CSV report of SPEC's tools for one of the two suites."""
    return "Tested with SPEC" in text and _validity(split(text)) is not None


def parse(text: str) -> Parsed:
    """Read one report; a row for each base iteration of each benchmark.

    Columns: ``benchmark``, ``iteration``, ``ranks``, ``time`` [s], ``ratio`` (the time of the
    reference machine by this one), ``selected`` (1 if the metric uses it). The facts have
    ``metric``, its value ``base``, ``valid``, and ``iterations`` (the fewest of a benchmark).

    :raises ParseError: another report, another suite, or a column that is not there.
    """
    lines = [line for _, line in without_warnings(split(text))]
    rows = _cells(lines)
    suite, version, pattern = _suite(rows)
    valid = _validity(lines)
    if not valid:
        raise ParseError("the first line does not say whether the run is valid")
    full, selected = _table(rows, _FULL), _table(rows, _SELECTED)
    metrics = [row for row in rows if row and pattern.match(row[0])]
    found, problems = _rows(full, selected)
    problems = [
        *([] if valid[1] == "1" else ["SPEC's tools call the run invalid"]),
        *_errors(rows),
        *problems,
    ]
    base = _metric(metrics)
    times = _by_benchmark(found)
    if found and base is not None and not problems:
        problems += _contradictions(times, base)
    return Parsed(
        family="spec",
        program=suite,
        version=version,
        complete=bool(found) and base is not None and len(selected) == len(times) and _ended(lines),
        rows=tuple(found),
        units=UNITS,
        problems=tuple(problems),
        facts={
            "metric": metrics[0][0] if metrics else None,
            "base": base,
            "valid": int(valid[1]),
            "iterations": min(map(len, times.values()), default=0),
        },
    )


def _validity(lines: Sequence[str]) -> re.Match[str] | None:
    return next((found for line in lines if (found := _VALID.match(line))), None)


def _cells(lines: Sequence[str]) -> list[list[str]]:
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines)]
    except csv.Error as error:
        raise ParseError(f"not CSV: {error}") from None


def _suite(rows: Sequence[Sequence[str]]) -> tuple[str, str | None, re.Pattern[str]]:
    for row in reversed(rows):
        _, known, rest = " ".join(row).partition("Tested with SPEC")
        if known:
            last = known + rest[:_LONG]
            for pattern, name, metric in _SUITES:
                if pattern.search(last):
                    version = _VERSION.search(last)
                    return name, version[1] if version else None, metric
            raise ParseError(f"only MPI2007 and SPEChpc 2021 are known, not {last[:60]!r}")
    raise ParseError("the line of SPEC's tools, 'Tested with SPEC ...', is not there")


def _table(rows: Sequence[Sequence[str]], title: str) -> list[dict[str, str]]:
    """The lines of a table, by the names of :data:`_COLUMNS` and ``benchmark``.

    :raises ParseError: the table is not there once, or lacks a column.
    """
    starts = [n for n, row in enumerate(rows) if row[:1] == [title]]
    if len(starts) != 1:
        raise ParseError(f"{len(starts)} times {title!r}, once was expected")
    body = [(n, row) for n, row in enumerate(rows[starts[0] + 1 :], starts[0] + 2) if any(row)]
    if not body or body[0][1][0] != "Benchmark":
        raise ParseError(f"{title}: no line of headings")
    headings = body[0][1]
    at = {"benchmark": 0}
    for name, pattern in _COLUMNS.items():
        columns = [n for n, heading in enumerate(headings) if pattern.match(heading)]
        if len(columns) != 1:
            raise ParseError(f"{title}: {len(columns)} columns of {name}", body[0][0])
        at[name] = columns[0]
    table = []
    for _, row in body[1:]:
        if not re.match(r"\d{3}\.\w", row[0]):
            break
        table.append({name: row[n] if n < len(row) else "" for name, n in at.items()})
    return table


def _rows(full: _Table, selected: _Table) -> tuple[list[dict[str, Value]], list[str]]:
    found: list[dict[str, Value]] = []
    problems = []
    chosen = {line["benchmark"]: line for line in selected}
    if len(chosen) != len(selected):
        problems.append("a benchmark was selected twice")
    count: dict[str, int] = {}
    taken: set[str] = set()
    for line in full:
        name = line["benchmark"]
        count[name] = iteration = count.get(name, 0) + 1
        what = f"{name}, iteration {iteration}"
        if line["status"] not in _SUCCESS:
            problems.append(f"{what}: base status {line['status'] or 'is missing'}")
            continue
        row: dict[str, Value] = {
            "benchmark": name,
            "iteration": iteration,
            "ranks": integer(line["ranks"], 0, what),
            "time": real(line["time"], 0, what),
            "ratio": real(line["ratio"], 0, what),
            "selected": 0,
        }
        if not all(float(row[column]) > 0 for column in ("time", "ratio")):
            problems.append(f"{what}: {line['time']} s, ratio {line['ratio']}: not a measurement")
        mine = chosen.get(name, {})
        if all(line[column] == mine.get(column) for column in ("ranks", "time", "ratio")):
            row["selected"] = int(name not in taken)
            taken.add(name)
        found.append(row)
    for name in count:
        if name not in taken:
            problems.append(f"{name}: the selected iteration is none of its own")
    return found, problems


def _by_benchmark(rows: Sequence[Mapping[str, Value]]) -> dict[str, list[Mapping[str, Value]]]:
    found: dict[str, list[Mapping[str, Value]]] = {}
    for row in rows:
        found.setdefault(str(row["benchmark"]), []).append(row)
    return found


def _metric(lines: Sequence[Sequence[str]]) -> float | None:
    if len(lines) != 1:
        return None
    cells = [cell for cell in lines[0][1:] if cell]
    value = real(cells[0], 0, " ".join(lines[0])) if cells else math.nan
    return value if value > 0 else None


def _errors(rows: Sequence[Sequence[str]]) -> list[str]:
    """What stands below ``ERRORS``, without its frame."""
    start = next((n for n, row in enumerate(rows) if row[:1] == [_ERRORS]), len(rows))
    said = (" ".join(row).strip("# ") for row in rows[start + 1 :])
    framed = (line for line in said if "Tested with SPEC" not in line)
    kept = []
    for line in framed:
        if line.startswith("----"):
            break
        if line:
            kept.append(re.sub(r"(INVALID RUN ?)+", "INVALID RUN", line))
    return list(dict.fromkeys(kept))


def _contradictions(
    iterations: Mapping[str, Sequence[Mapping[str, Value]]], base: float
) -> list[str]:
    """Ratios that do not follow from times, selections that are no median, a wrong mean."""
    found, logarithms = [], []
    for name, rows in iterations.items():
        ratios = sorted(float(row["ratio"]) for row in rows)
        references = [float(row["ratio"]) * float(row["time"]) for row in rows]
        if max(references) > (1 + _REFERENCE) * min(references):
            found.append(f"{name}: its times and ratios are not those of one reference machine")
        (chosen,) = [float(row["ratio"]) for row in rows if row["selected"]]
        # Of an even number of iterations, the slower one of the middle.
        median = ratios[(len(ratios) - 1) // 2]
        if chosen != median:
            found.append(f"{name}: the ratio {chosen:g} was selected, the median is {median:g}")
        if len({row["ranks"] for row in rows}) > 1:
            found.append(f"{name}: its iterations had different numbers of ranks")
        logarithms.append(math.log(chosen))
    mean = math.exp(sum(logarithms) / len(logarithms))
    if abs(base - mean) > _METRIC * mean:
        found.append(f"the metric is {base:g}, the geometric mean of the ratios is {mean:.4g}")
    return found


def _ended(lines: Sequence[str]) -> bool:
    last = next((line for line in reversed(lines) if line), "")
    end = _END.search(last)
    return bool(end) and last.count('"') % 2 == 0
