"""IOzone: the table of rates over file size and record size that ``iozone -a`` and others print.

The parser was checked against real outputs of IOzone 3.414, 3.489 and 3.508, and against the
source of 3.508 (``iozone.c``: ``main``, ``begin``, ``auto_test``, ``print_header``). The header
names the columns of all tests, but a row holds only the columns of the tests that ``-i`` selected.
3.508 leaves too little space for the other columns, so a number may not stand under its own
header. The command line, which IOzone repeats, shows which columns were measured; the header shows
their order. Before 3.508, a wide number may have no blank before it; there, the width of the
columns separates the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from assay import files
from assay.parse import Parsed, ParseError, Row, Value
from assay.parse.reading import first, integer, only, recogniser, split

_FORMAT = files.own(__file__, dict[str, Any])
_BANNER = re.compile(r"\s*Iozone: Performance Test of File I/O$")
_VERSION = re.compile(r"\s*Version \$Revision: (\S+) \$$")
_KNOWN = re.compile(r"3\.\d{1,4}", re.ASCII)
_COMMAND = re.compile(r"\tCommand line used: (.*)$")
_LOWEST = re.compile(r"\tUsing minimum file size of (\d{1,12}) kilobytes\.$", re.ASCII)
_THROUGHPUT = re.compile(r"\tThroughput test with \d+ ")
_HEADER = re.compile(r" +[kK]B +reclen ")
_ROW = re.compile(r" *\d+ +\d+(?: |$)", re.ASCII)
_CELL = re.compile(r" *\d+", re.ASCII)
_FAILURE = re.compile(r"\s*(?:Error\b|Can not |iozone: interrupted)")
_REASON = re.compile(r"[a-z]+: ")
_COARSE = re.compile(r"reported inaccurate results\. Sizes (\d{1,9}) [kK]Bytes and below\.$")
_END = "iozone test complete."

_SIZE = re.compile(r"(\d{1,12})([kKmMgG]?)", re.ASCII)
_TEST = re.compile(r"\d{1,2}", re.ASCII)
_VALUED = "JjkVrtsfFdluUSLHPibXYgnyq"
#: A word of options: letters alone, and an option with what may be its value.
_OPTION = re.compile(rf"-([^+{_VALUED}]*)(\+?.?)(.*)")

recognise = recogniser(_BANNER)


def parse_iozone(text: str) -> Parsed:
    """Read the output of one run of ``iozone`` in its table form.

    There is one row for each file size and record size: ``file_size`` [KiB], ``record_size``
    [KiB], and the rate of each selected test: ``write``, ``rewrite``, ``read``, ``reread``,
    ``random_read``, ``random_write``, ``backward_read``, ``record_rewrite``, ``stride_read``,
    ``fwrite``, ``frewrite``, ``fread``, ``freread``, ``pwrite``, ``repwrite``, ``pread``,
    ``repread`` [KiB/s; op/s with ``-O``; us per operation with ``-N``]. A row that was cut short
    is a problem and is left out.

    The output is complete if it has the last line and a row for each pair of sizes that the
    command line asks for. IOzone itself leaves out sizes that are not given in ascending order;
    such an output is not complete.

    ``facts``: ``command``; ``o_sync``, ``o_dsync``, ``o_direct``: how the file was opened;
    ``fsync_timed``, ``close_timed``: whether the rates include the time of these calls;
    ``coarse_below``: the record size [KiB] up to which IOzone reports that its timer is too
    coarse, None if it does not report this.

    :raises ParseError: no banner, an unknown version or table, more than one run, a throughput
        run (``-t``), a row that does not fit its header.
    """
    lines = split(text)
    only(lines, _BANNER, "banner of IOzone")
    version = _version(lines)
    command = first(lines, _COMMAND)
    options = _options(command or "")
    if lowest := first(lines, _LOWEST):
        options["n"] = [lowest]  # the effective -n: no file is smaller than a page
    unit = next((its for mark, its in _FORMAT["units"].items() if _says(lines, mark)), "KiB/s")
    table = _table(lines, options)
    rows, problems = _rows(lines, table, unit)
    ended = bool(table.measured) and _END in lines[table.line :]
    seen = {(row["file_size"], row["record_size"]) for row in rows}
    missing = [cell for cell in _cells_asked_for(options) if cell not in seen]
    if ended and missing:
        size, record = missing[0]
        problems.append(
            f"no row for {len(missing)} of the sizes asked for, the first being "
            f"file {size} KiB, record {record} KiB"
        )
    coarse = first(lines, _COARSE)
    return Parsed(
        family="iozone",
        program="iozone",
        version=version,
        complete=ended and command is not None and not missing,
        rows=rows,
        units={name: "KiB" if name.endswith("_size") else unit for name in table.measured},
        problems=(*_failures(lines), *problems),
        facts={
            "command": command,
            **{name: _says(lines, mark) for name, mark in _FORMAT["modes"].items()},
            "coarse_below": int(coarse) if coarse else None,
        },
    )


def _says(lines: Sequence[str], mark: str) -> bool:
    return any(map(re.compile(rf"\t{mark}").fullmatch, lines))


def _version(lines: Sequence[str]) -> str:
    number, match = only(lines, _VERSION, "version of IOzone")
    if not _KNOWN.fullmatch(match[1]):
        raise ParseError("only IOzone 3 is known", number, lines[number - 1])
    for number, line in enumerate(lines, 1):
        if _THROUGHPUT.match(line):
            raise ParseError("a throughput run (-t): only the table is read", number, line)
    return match[1]


def _failures(lines: Sequence[str]) -> list[str]:
    """The error messages of IOzone, each with the system's reason from the next line."""
    problems = []
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""]), 1):
        if _FAILURE.match(line):
            reason = f": {following}" if _REASON.match(following) else ""
            problems.append(f"line {number}: {line.strip()}{reason}")
    return problems


#: Option of the command line -> its values.
Options = dict[str, list[str]]


def _options(command: str) -> Options:
    """The options of the command line, as IOzone's getopt reads them (iozone.c:2000)."""
    options: Options = {}
    words = iter(command.split())
    for word in words:
        if said := _OPTION.fullmatch(word):
            flags, option, value = said.groups()
            for each in (*flags, option):
                options.setdefault(each, [])
            if option in (*_VALUED, "+x"):
                options[option].append(value or next(words, ""))
    return options


def _columns(options: Options) -> set[str]:
    """The columns that the selected tests fill; without ``-i``, the columns of all tests."""
    tests = {int(value) for value in options.get("i", ()) if _TEST.fullmatch(value)}
    chosen = {0, 1} if "A" in options else tests or {*_FORMAT["tests"]}
    return {name for test in chosen for name in _FORMAT["tests"].get(test, ())}


def _cells_asked_for(options: Options) -> list[tuple[int, int]]:
    """The requested pairs of file size and record size [KiB] (``auto_test``, iozone.c:3860)."""
    sizes = [_kib(value) or 512 for value in options.get("s", ())]
    records = [_kib(value) or 4 for value in options.get("r", ())]
    if not (options.keys() & {"a", "A"} or len(sizes) > 1 or len(records) > 1):
        return [((sizes or [512])[0], (records or [4])[0])]
    factor = max(2, _kib(options.get("+x", ("",))[-1]))

    def limit(letter: str, given: Sequence[int], default: int) -> int:
        return _kib(options.get(letter, ("",))[-1]) or (given or [default])[0]

    def steps(least: int, most: int) -> list[int]:
        return [least, *steps(least * factor, most)] if least <= most else []

    if len(sizes) < 2:
        sizes = steps(limit("n", sizes, 64), limit("g", sizes, 512 * 1024))
    least, most = limit("y", records, 4), limit("q", records, 16 * 1024)
    cells = []
    for size in sizes:
        # Auto mode leaves out records below 64 KiB for files above 16 MiB.
        low = least if options.keys() & set("zArsyq") or size <= 16 * 1024 else 64
        of_size = records if len(records) > 1 else steps(low, most)
        cells += [(size, record) for record in of_size if record <= size]
    return cells


def _kib(value: str) -> int:
    """A size such as ``64``, ``64k``, ``1m`` or ``2g`` in KiB; 0 if the text is not a size."""
    match = _SIZE.fullmatch(value)
    return int(match[1]) * {"m": 1024, "g": 1024**2}.get(match[2].lower(), 1) if match else 0


class _Table(NamedTuple):
    """The header of the table and its columns.

    :ivar line: number of the line of the header; 0 if there is no header.
    :ivar measured: the filled columns that were measured.
    :ivar edges: each column of the header with the position where its numbers end.
    """

    line: int = 0
    filled: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    edges: tuple[tuple[str, int], ...] = ()


def _table(lines: Sequence[str], options: Options) -> _Table:
    """The table that the two header lines describe; an empty one if there is no header yet."""
    heads = [number for number, line in enumerate(lines, 1) if _HEADER.match(line)]
    if not heads:
        return _Table()
    number = heads[0]
    line = lines[number - 1]
    if len(heads) > 1:
        raise ParseError("a second table in one output", heads[1], line)
    above = {word.end(): word.group() for word in re.finditer(r"\S+", lines[max(0, number - 2)])}
    words = list(re.finditer(r"\S+", line))
    names = [f"{above.get(word.end(), '')} {word.group()}".strip().lower() for word in words]
    known = _FORMAT["columns"][: len(names)]
    if names != [name.lower() for name in known]:
        raise ParseError("unknown columns in the table of IOzone", number, line)
    columns = [_FORMAT["names"].get(name, name.replace(" ", "_")) for name in known]
    ends = [word.end() for word in words]
    layouts = (its["numbers"] for its in _FORMAT["edges"] if its["words"][: len(ends)] == ends)
    edges = next(layouts, ())
    chosen = _columns(options)
    filled = (*columns[:2], *(name for name in columns[2:] if name in chosen))
    skipped = _FORMAT["repeated"] if "+n" in options else ()
    measured = tuple(name for name in filled if name not in skipped)
    return _Table(number, filled, measured, tuple(zip(columns, edges)))


def _rows(lines: Sequence[str], table: _Table, unit: str) -> tuple[tuple[Row, ...], list[str]]:
    rows: list[Row] = []
    problems: list[str] = []
    seen: set[tuple[Value, Value]] = set()
    body = [
        (number, line)
        for number, line in enumerate(lines[table.line :], table.line + 1)
        if table.line and _ROW.match(line)
    ]
    ended = _END in lines
    for number, line in body:
        cells = _cells(line, table)
        # If IOzone was stopped, the last number may lack digits although the row looks complete.
        if not ended and number == body[-1][0] and (cells is None or number == len(lines)):
            problems.append(f"line {number}: cut short: {line.strip()}")
            break
        if cells is None:
            raise ParseError("a row that does not fit the table's header", number, line)
        row = {name: integer(cells[name], number, line) for name in table.measured}
        size = (row["file_size"], row["record_size"])
        if size in seen:
            raise ParseError("a second row for the same sizes", number, line)
        seen.add(size)
        # Microseconds are rounded to whole numbers, so a 0 is possible.
        if unit != "us" and not all(row.values()):
            problems.append(f"line {number}: a rate of 0: {line.strip()}")
        rows.append(row)
    return tuple(rows), problems


def _cells(line: str, table: _Table) -> dict[str, str] | None:
    """The text of each column of a row; None if the row does not fill the expected columns."""
    words = line.split()
    if len(words) == len(table.filled):
        return dict(zip(table.filled, words))
    cells = {}
    start = 0
    for name, end in table.edges:
        cell = line[start:end]
        if cell.strip():
            # A number that does not end where its column ends has shifted the other numbers.
            if not _CELL.fullmatch(cell):
                return None
            cells[name] = cell.strip()
        start = end
    return cells if tuple(cells) == table.filled and len(line) <= start else None
