"""nvbandwidth of NVIDIA, 0.1 to 0.8: matrices of copies between host and GPUs, as text or JSON.

output.cpp prints the text, json_output.cpp the JSON (``--json``, since 0.5). The program compares
what it copied. Since 0.6, text ends with a note. Before, it has no last line, so one that was cut
between two tests looks whole. Of several matrices of a test, JSON names only the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import read_as, recogniser, split, without_warnings
from assay.parse.tables import Column, Line, capped, cells, quote, units

KNOWN = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8")
PROGRAM = "nvbandwidth"

_VERSION = re.compile(r"nvbandwidth Version: v?(\S+)")
_JSON = re.compile(r'\s*"nvbandwidth"\s*:\s*\{?')
_RUNNING = re.compile(r"Running (\w+)\.")
_WAIVED = re.compile(r"Waiving \w+\.|Waived: ?")
_MATRIX = re.compile(r"((?:memcpy|memory|multicast|Device to|Bisect) .*?)(?: \((GB/s|ns)\))?")
_SUM = re.compile(r"(?:SUM|&&&& PERF) (\w+) (\S+)(?: \S+)?")
_ERROR = re.compile(r"(?:ERROR|Error|NVML_ERROR|ASSERT)\b.*| ?Invalid value .*|\[CUDA_ERROR.*")
_LAST = "Performance can vary with software drivers, hardware clocks, and system topology."
_COLUMNS = {"GB/s": Column("bandwidth", "GB/s"), "ns": Column("latency", "ns")}

recognise = recogniser(_VERSION, _JSON, _RUNNING, re.compile(r"memcpy .* bandwidth \(GB/s\)"))


class _Case(msgspec.Struct):
    name: str
    status: str
    bandwidth_description: str = ""
    bandwidth_matrix: list[list[str]] = []
    sum: float = 0.0
    error: str = ""


class _Body(msgspec.Struct):
    version: str
    testcases: list[_Case] = []
    error: str = ""


def parse_nvbandwidth(text: str) -> Parsed:
    """One row for each copy that was measured.

    Columns: ``test``, ``what`` (the heading of the matrix, without the unit), ``row`` and
    ``peer`` (numbers of GPUs or processes, as text), ``bandwidth`` [GB/s].

    Facts: ``waived``, how many tests could not run here; ``latencies``, the rows of the matrices in
    ns, with ``latency`` for the bandwidth.

    :raises ParseError: no test, or a report in JSON of another form.
    """
    problems: list[str] = []
    lines = list(without_warnings(split(text)))
    if any(_JSON.fullmatch(said) for _, said in lines):
        lines = list(_as_text(lines, problems))
    version, test, what, unit, note, waived = "", "", "", "", False, 0
    columns: list[str] | None = None
    pending = ""
    rows: dict[str, list[Row]] = {"GB/s": [], "ns": []}
    its: list[Row] = []
    for number, said in lines:
        if named := _VERSION.fullmatch(said):
            problems += [f"line {number}: a second run"] if version else []
            version = named[1]
        elif running := _RUNNING.fullmatch(said):
            problems += [f"line {number}: {pending} has no end"] if pending else []
            test = pending = running[1]
            columns = None
        elif test and (head := _MATRIX.fullmatch(said)):
            what, unit, pending, columns, its = head[1], head[2] or "GB/s", test, [], []
        elif columns and (total := _SUM.fullmatch(said)):
            problems += _other_sum((number, total[2]), its, _COLUMNS[unit])
            rows[unit] += its
            columns, pending = None, ""
        elif columns == []:
            columns = said.split()
        elif columns and len(values := said.split()) == len(columns) + 1 and values[0][0].isdigit():
            for peer, value in zip(columns, values[1:]):
                # A GPU copies nothing to itself; old versions print 0.00 there.
                itself = value == "0.00" and values[0] == peer and "GPU(row)" in what
                if value != "N/A" and not itself:
                    place = {"test": test, "what": what, "row": values[0], "peer": peer}
                    found = cells((number, value), (_COLUMNS[unit],), problems)
                    its += [place | dict(cell) for cell in found]
        elif _ERROR.fullmatch(said) or (columns and said):
            problems.append(f"line {number}: {quote(said)} stands where a row would")
        waived += bool(_WAIVED.fullmatch(said))
        note |= said == _LAST
    if not version and not test:
        raise ParseError("no test of nvbandwidth")
    problems += [f"{pending} has no end"] if pending else []
    ended = note or version < "0.6"
    problems += [] if ended else ["the note at the end is missing: the output was cut"]
    return Parsed(
        PROGRAM, PROGRAM, version or None, bool(ended and not pending and rows["GB/s"]),
        tuple(rows["GB/s"]), units([_COLUMNS["GB/s"]]), capped(problems, lines),
        {"waived": waived, "latencies": rows["ns"], **(read_as(version, KNOWN) if version else {})},
    )  # fmt: skip


def _other_sum(stated: Line, rows: Sequence[Row], column: Column) -> list[str]:
    """A problem if the sum that the program states is not that of the values, of two digits."""
    problems: list[str] = []
    its = sum(float(row[column.name]) for row in rows)
    for total in cells(stated, (column,), problems) if rows else ():
        if abs(its - float(total[column.name])) > 0.006 * (len(rows) + 1) + 1e-5 * its:
            problems.append(f"line {stated[0]}: the sum is {stated[1]}, that of the rows {its:.2f}")
    return problems


def _as_text(lines: Sequence[Line], problems: list[str]) -> Iterator[Line]:
    """What the text would say of a report in JSON."""
    plain = [said for _, said in lines]
    begin = plain.index("{") if "{" in plain else 0
    end = len(plain) - plain[::-1].index("}") if "}" in plain else len(plain)
    try:
        report = msgspec.json.decode("\n".join(plain[begin:end]), type=dict[str, _Body])
    except msgspec.ValidationError as error:
        raise ParseError(f"not a report of nvbandwidth: {error}") from None
    except (msgspec.DecodeError, RecursionError):
        raise ParseError("the report is cut short or damaged") from None
    for body in report.values():
        yield 0, f"nvbandwidth Version: {body.version}"
        yield 0, f"ERROR: {body.error}" if body.error else ""
        for case in body.testcases:
            if case.status == "Waived":
                yield 0, "Waived:"
                continue
            yield 0, f"Running {case.name}."
            if case.error or case.status != "Passed":
                yield 0, f"ERROR: {case.name}: {case.status} {case.error}"
            if table := case.bandwidth_matrix:
                yield 0, case.bandwidth_description
                yield 0, " ".join(map(str, range(len(table[0]))))
                one = "GPU(row)" in case.bandwidth_description
                for k, values in enumerate(table[-len(table[0]) :] if one else table):
                    yield 0, f"{k} {' '.join(values)}"
                yield 0, f"SUM {case.name} {case.sum!r}"
    yield 0, _LAST
