"""Intel MPI Benchmarks: all benchmarks of IMB-MPI1, 4.1 to 2021.

IMB_print_header() and IMB_display_times() of src_c/IMB_output.c print the table. The parser was
checked against 2019 Update 1, 2021.2, 2021.7 and 2021.11. MB/s is 10^6 B/s in all of them, and
2^20 B/s in 4.1. The time of PingPong is half of a round trip. Biband counts the bytes of both
directions.

IMB ends with exit code 0 whatever happens. If it does not know a benchmark, it runs all others. If
a benchmark does not fit the number of ranks, it runs on fewer of them (``-npmin``), or not at all.
It checks the received data only if it was built with ``-DCHECK``; the table then has the column
``defects``.

With ``-iter_policy dynamic`` IMB repeats a size for at most ``-time`` seconds, as estimated by a
trial, and never more often than a smaller size (IMB_init_buffers_iter() of
src_cpp/helpers/helper_IMB_functions.h). If the benchmark as a whole takes longer than (sizes - 3)
times ``-time``, IMB leaves out the other sizes (``time-out.``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import first, read_as, recogniser
from assay.parse.tables import SIZE, Column, Identity, Line, body, capped, cells, quote, units

KNOWN = ("4.1", "2017", "2018", "2019", "2021")

_TITLE = re.compile(r"# +Intel ?\(R\) MPI Benchmarks (\S.*), MPI-1 part *")
_OTHER_PART = re.compile(r"# +Intel ?\(R\) MPI Benchmarks \S.*, (?!MPI-1 )(\S+) part *")
_CALL = re.compile(r"# \S*IMB-MPI1(?: .*)? -msglog (\d{1,2}):\d{1,2}(?: .*)?$", re.ASCII)
_WORDS = re.compile(r"# \S*IMB-MPI1((?: .*)?)$")
_MINIMUM = re.compile(r"# Minimum message length in bytes: +(\d{1,10})$", re.ASCII)
_MAXIMUM = re.compile(r"# Maximum message length in bytes: +(\d{1,10})$", re.ASCII)
_BENCHMARK = re.compile(r"#-? Benchmarking (\S+)")
_RANKS = re.compile(r"#-? (?:#processes = |\( \d+ groups of )(\d{1,9})(?!\d)", re.ASCII)
_REFUSAL = re.compile(r"# !! Benchmark \S+ invalid for \d+ processes !!")
_UNKNOWN = re.compile(r"Invalid (?:benchmark name|\S*data_type|contig_type) .*")
#: A size that needs more memory than IMB may take (-mem): it says so, and measures the others.
_NO_ROOM = re.compile(r" *\d+ out-of-mem\.")
_NOT_MEASURED = re.compile(r" *\d+ (?:time-out\.|out-of-mem\.|int-overflow).*")
#: IMB may repeat a size less often than asked for, but not so seldom and in so short a time: this
#: share of the repetitions, and this share of ``-time``.
FEW = 0.1
#: What a problem says of data that were checked, and how IMB says it beside ``defects``.
WRONG, _INVALID = "received data are wrong", re.compile(r"Process \d+: Got invalid buffer:.*")
#: What old versions call a Mbyte, in MB.
MIB = 1.048576
#: The first word of the line of headings.
_HEADS = (["#bytes"], ["#repetitions"], ["Group"])
_END = "# All processes entering MPI_Finalize"
# The rate of messages of 0 B is 0. The root of a broadcast leaves at once.
_COLUMNS = {
    "Group": Column("group", "1", positive=False, whole=True),
    "#bytes": SIZE,
    "#repetitions": Column("repetitions", "1", whole=True),
    "t[usec]": Column("latency", "us"),
    "t_min[usec]": Column("min", "us", positive=False),
    "t_max[usec]": Column("max", "us"),
    "t_avg[usec]": Column("latency", "us"),
    "Mbytes/sec": Column("bandwidth", "MB/s", positive=False),
    "Msg/sec": Column("messages_per_s", "1/s"),
    "defects": Column("defects", "1", positive=False),
}
_ORDER = Identity("min <= latency <= max")
_MESSAGES = Identity("bandwidth * 1e6 = messages_per_s * size")
#: Benchmark -> how often its bandwidth counts the bytes of a message; of the others once.
_COUNTED = {"Sendrecv": 2, "Exchange": 4}
#: With MPI_FLOAT, these benchmarks leave out what is shorter than one number.
_REDUCING = re.compile("(All)?[Rr]educe.*")
#: Also the quantiles of -show_tail.
_OTHER = re.compile(rf"\[ ?[\d., ]+\]|{_UNKNOWN.pattern}")

recognise = recogniser(_TITLE, _BENCHMARK)


def parse_imb(text: str) -> Parsed:
    """The tables of one benchmark.

    Columns, as far as it has them: ``size`` [B], ``repetitions``; ``latency`` [us], the average
    over the ranks if there are also ``min`` and ``max`` [us]; ``bandwidth`` [MB/s, 10^6 B/s] and
    ``messages_per_s``, those of Biband for both directions together; ``defects`` if the received
    data were checked; ``group`` (``-multi 1``). Several tables, for several numbers of ranks, add
    the column ``ranks``, those of one group.

    Facts: ``ranks`` (of all tables, or None), ``checked`` (whether the data were), ``command_line``
    (without the program), ``skipped`` (sizes [B] that need more memory than IMB may take).

    A version of None stands for an excerpt without the title, which is never sound.

    :raises ParseError: no table, an unknown heading, or a refusal.
    """
    lines, problems = body(text)
    if other := first((line for _, line in lines), _OTHER_PART):
        raise ParseError(f"the {other} part of the Intel MPI Benchmarks; only IMB-MPI1 is read")
    version, lines = _title(lines, problems)
    for line in lines:
        if _REFUSAL.fullmatch(line[1]):
            raise ParseError("no result, the program refused", *line)
    problems += [f"line {n}: {quote(said)}" for n, said in lines if _UNKNOWN.fullmatch(said)]
    said = [line for _, line in lines]
    end = said.index(_END) if _END in said else len(lines)
    heads = [at for at in range(end) if said[at].split()[:1] in _HEADS]
    if not heads:
        raise ParseError("no table of a benchmark")
    name, columns = _benchmark(lines[: heads[0] + 1])
    plan, whole = _plan(said, name), True
    rows: list[Row] = []
    counts: list[int] = []
    skipped: list[int] = []
    for before, at, after in zip([0, *heads], heads, [*heads[1:], end]):
        benchmark, _ = _benchmark(lines[before : at + 1])
        counts.append(int(first(said[before:at][::-1], _RANKS) or 0))
        known = counts[-1] not in counts[:-1]
        if not known or benchmark.removeprefix("Multi-") != name.removeprefix("Multi-"):
            problems.append(f"line {lines[at][0]}: a second table: read one benchmark at a time")
            whole = False
            break
        skipped += [int(line.split()[0]) for line in said[at + 1 : after] if _NO_ROOM.match(line)]
        of_table, wrong = _rows(lines[at + 1 : after], columns, name)
        if wrong and re.match(r"[34]\.|2017", version or ""):
            binary = [replace(c, factor=MIB) if c.unit == "MB/s" else c for c in columns]
            again, also = _rows(lines[at + 1 : after], binary, name, MIB)
            of_table, wrong = (of_table, wrong) if also else (again, also)
        problems += wrong
        sizes = [*dict.fromkeys(int(row["size"]) for row in of_table if "size" in row)]
        plan = plan and [size for size in plan if size not in skipped]
        if plan is not None and sizes != plan and "#bytes" in said[at].split():
            last = sizes[-1] if sizes else "no row"
            problems.append(
                f"{len(sizes)} of {len(plan)} sizes, the last is {last}, not {plan[-1]}"
            )
            whole = False
        whole = whole and bool(of_table)
        rows += of_table if len(heads) == 1 else [{**r, "ranks": counts[-1]} for r in of_table]
    if end == len(lines):
        problems.insert(0, "IMB did not come to its end")
    problems.sort(key=lambda problem: WRONG not in problem)  # the most important first
    words = first(said, _WORDS)
    facts = {
        "ranks": counts[0] or None if len({*counts}) == 1 else None,
        "checked": any(column.name == "defects" for column in columns),
        "command_line": words and words.strip(),
        **({"skipped": skipped} if skipped else {}),
        **(read_as(version, KNOWN) if version else {}),
    }
    return Parsed(
        "imb", f"IMB-MPI1 {name}", version, whole and end < len(lines), tuple(rows),
        {**units(columns), **({"ranks": "1"} if len(heads) > 1 else {})},
        capped(problems, lines[end:]), facts,
    )  # fmt: skip


def cut(
    parsed: Parsed, repetitions: int, seconds: float, window: int
) -> tuple[dict[int, int], list[str]]:
    """The sizes that IMB repeated less often than asked for, because of ``-time``.

    :param seconds: the value of ``-time``.
    :param window: the value of ``-window_size``; Biband counts the messages of both directions.
    :return: size [B] -> repetitions; and the first number that ``-time`` does not explain.
    """
    fewer, problems, allowed = {}, [], repetitions
    for row in parsed.rows:
        values: dict[str, Any] = dict(row)
        size, done = values["size"], values["repetitions"]
        if "messages_per_s" in values:
            took = done * 2 * window / values["messages_per_s"]
        else:
            took = done * 1e-6 * values.get("max", 2 * values["latency"])
        if done > allowed:
            problems.append(f"{done} repetitions of {size} B were measured, {allowed} before")
        elif done < FEW * repetitions and took < FEW * seconds:
            problems.append(
                f"{done} repetitions of {size} B were measured in {took:.2g} s, "
                f"{repetitions} were asked for, or {seconds:g} s"
            )
        if done < repetitions:
            fewer[size] = done
        allowed = done
    return fewer, problems[:1]


def _title(lines: list[Line], problems: list[str]) -> tuple[str | None, list[Line]]:
    """The version, and the lines after the title."""
    titles = [(i, m[1]) for i, (_, line) in enumerate(lines) if (m := _TITLE.fullmatch(line))]
    if not titles:
        problems.append("no title of the Intel MPI Benchmarks: an excerpt")
        return None, lines
    at, version = titles[0]
    for again, _ in titles[1:]:
        problems.append(f"line {lines[again][0]}: a second title (of N singletons?)")
    return version, lines[at + 1 :]


def _plan(lines: Sequence[str], name: str) -> list[int] | None:
    """The sizes that this run prints [B]; None if a file gave them (``-msglen``)."""
    low, high, log = (first(lines, pattern) for pattern in (_MINIMUM, _MAXIMUM, _CALL))
    if low is None or high is None:
        return None
    zero = [0] if int(low) == 0 else []
    least = max(1 << int(log or 0), 4 if _REDUCING.fullmatch(name.removeprefix("Multi-")) else 1)
    return zero + [1 << k for k in range(34) if least <= 1 << k <= int(high)]


def _benchmark(lines: Sequence[Line]) -> tuple[str, list[Column]]:
    """The benchmark that these lines name last, and the columns that the last one has."""
    named = [match[1] for _, line in lines if (match := _BENCHMARK.fullmatch(line))]
    if not named:
        raise ParseError("a table without the name of its benchmark", *lines[-1])
    heads = lines[-1][1].split()
    if not {*heads} <= _COLUMNS.keys() or len(heads) < 4:
        raise ParseError(f"unknown headings of {named[-1]}", *lines[-1])
    return named[-1], [_COLUMNS[head] for head in heads]


def _rows(
    lines: Sequence[Line], columns: Sequence[Column], name: str, mega: float = 1
) -> tuple[list[Row], list[str]]:
    """The rows and their problems; a Mbyte of the text is so many MB."""
    problems: list[str] = []
    slowest = "max" if any(column.name == "max" for column in columns) else "latency"
    times = _COUNTED.get(name.removeprefix("Multi-"), 1)
    identities = (Identity(f"bandwidth * {slowest} = {times / mega} * size"), _MESSAGES, _ORDER)
    rows: list[Row] = []
    for number, line in lines:
        if _NO_ROOM.match(line):
            continue
        if _NOT_MEASURED.fullmatch(line):
            problems.append(f"line {number}: not measured: {quote(line)}")
        elif re.match(r" *(?:[-+]?\d|[-+]?(?:nan|inf))", line):
            found = cells((number, line), columns, problems, identities=identities)
            if any(row.get("defects") for row in found):
                problems.append(f"line {number}: {WRONG}: {quote(line)}")
            rows += found
        elif line and not line.startswith("#") and not _OTHER.fullmatch(line):
            what = WRONG if _INVALID.fullmatch(line) else "not a row of IMB-MPI1"
            problems.append(f"line {number}: {what}: {quote(line)}")
    return rows, problems
