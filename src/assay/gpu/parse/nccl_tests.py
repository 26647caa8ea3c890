"""nccl-tests and rccl-tests (``all_reduce_perf``...), 2.0 to 2.19: tables of collectives of GPUs.

src/common.cu prints the table, since 2.17.4 src/util.cu. A row has the result out of place and in
place; GB/s is 10^9 B/s. The bus bandwidth is what each link carried (doc/PERFORMANCE.md).

The programs name themselves since 2.17. Before, the columns and the two bandwidths tell them apart,
where they can. They compare the data before they measure (``-c``), and count the wrong values; the
in-place data of some are not compared (``N/A``). Until 2.12 the column ``error`` had the greatest
difference, and only the line of the values out of bounds judged it.

A second test in the same text is read, too, if the first came to its end.

The file of ``-J`` has the same numbers with more digits, and is read as the table that it stands
for. What ``-I`` adds to it, the time of each iteration, is left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.gpu.parse import nccl_log
from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import read_as, real, recogniser, split, without_warnings
from assay.parse.tables import Column, Identity, Line, capped, cells, contradictions, quote, units

KNOWN = ("2.17", "2.18", "2.19")
PROGRAM = "nccl-tests"

_START = re.compile(
    r"# nThread (\d{1,6}) nGpus (\d{1,6}) minBytes (\d{1,18}) maxBytes (\d{1,18}) "
    r"step: (\d{1,18})\((factor|bytes)\) warmup iters: \d+ iters: (\d{1,9})(?: agg iters: \d+)? "
    r"validation: (\d+).*",
    re.ASCII,
)
_VERSION = re.compile(r"# [nr]ccl-tests version (\S+) .*|rccl-tests: Version (\S*)")
_NAMED = re.compile(r"# Collective test (starting|concluded): (?:\S*/)?(\w+)")
_RANK = re.compile(
    r"# +Rank +(\d{1,7})(?: Group +(\d{1,7}))? Pid +\d+ on +(\S+) device +(\d{1,4}) \[\S+\] (.*)",
    re.ASCII,
)
_LEAST = re.compile(r"# Reducing maxBytes to (\d{1,18}) due to memory limitation", re.ASCII)
_STATED = re.compile(r"# (Out of bounds values|Avg bus bandwidth) +: (\S+) ?(OK|FAILED|)")
_FAILED = re.compile(
    r".*: Test (?:(?:NCCL|CUDA|HIP) failure|timeout) .*| \.\. .* Test failure .*|# error: .*"
    r"|\[ERROR\] .*|Invalid number of GPUs: .*|invalid (?:size|option) .*"
)
#: Heading of a column of both places -> its name and unit.
_PLACED = {
    **{"time": ("time", "us"), "cputime": ("cpu_time", "us")},
    **{"algbw": ("bandwidth", "GB/s"), "busbw": ("bus_bandwidth", "GB/s")},
    **{"i_min": ("time_min", "us"), "i_max": ("time_max", "us")},
    **{"i_p99": ("time_p99", "us"), "i_cv%": ("time_variation", "%")},
}
_WORDS = ("type", "redop", "root")
#: Name of a type -> bytes of an element.
_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}
#: Program -> its factor from the bandwidth to that of the bus, by the number of ranks N.
_FACTORS = {
    "all_reduce_perf": "2 * (N - 1) / N",
    **dict.fromkeys(("broadcast_perf", "reduce_perf", "sendrecv_perf", "hypercube_perf"), "1"),
    **dict.fromkeys(("all_gather_perf", "reduce_scatter_perf", "alltoall_perf"), "(N - 1) / N"),
    **dict.fromkeys(("alltoallv_perf", "gather_perf", "scatter_perf"), "(N - 1) / N"),
}

#: A key that only the file of -J has; the versions of its form (JSON_FILE_VERSION in src/util.cu).
_JSON, _FORMS = re.compile(r'\s*(?:\{.*)?"nccl_version": ?\d.*'), (1, 2, 3)
#: Key of a place in a result of that file -> the heading of its column.
_KEYS = {"time": "time", "cpu_time": "cputime", "alg_bw": "algbw", "bus_bw": "busbw"}

recognise = recogniser(_START, _JSON)


def parse_nccl_tests(text: str) -> Parsed:
    """The rows of one test, or of several after each other; or a file of ``-J``.

    Columns: ``test`` (the program, or empty), ``size`` [B], ``count``, ``type``, ``redop``,
    ``root``; out of place ``time`` [us], ``bandwidth`` and ``bus_bandwidth`` [GB/s]; in place the
    same with ``_in_place`` (rccl-tests may have only these).

    Facts: ``ranks``, ``nodes`` and ``gpus`` (of each rank: node, number, name); ``iterations``;
    ``validates``, whether data were compared; ``average``, the bus bandwidth that the program
    states for each test; ``path``, what the log of NCCL says (:mod:`assay.gpu.parse.nccl_log`).

    :raises ParseError: no first line, or columns that are not known; or a file that is no JSON.
    """
    if text.lstrip().startswith("{"):
        parsed = parse_nccl_tests(_as_table(text))
        own = tuple(re.sub(r"^line \d+: ", "", said) for said in parsed.problems)
        return replace(parsed, problems=own)
    path, problems, lines = nccl_log.parse_nccl_log(without_warnings(split(text)[:-1]))
    starts = [at for at, (_, line) in enumerate(lines) if _START.fullmatch(line)]
    if not starts:
        raise ParseError("no first line of nccl-tests with its end")
    # The name of the program stands before the first line of a test.
    names = [said and said[2] for at in starts for said in [_NAMED.fullmatch(lines[at - 1][1])]]
    parts = [lines[at:end] for at, end in zip(starts, [*starts[1:], len(lines)])]
    tests = [_Test(name, part, problems) for name, part in zip(names, parts)]
    if len({tuple(row) for test in tests for row in test.rows}) > 1:
        raise ParseError("the tests have different columns: read them one by one")
    one = tests[0]
    begun = sum("# Collective test starting: " in line for _, line in lines)
    versions = [said for _, line in lines if (said := _VERSION.fullmatch(line))]
    version = versions[0][1] or versions[0][2] if versions else None
    loose = [line for test in tests for line in test.loose]
    return Parsed(
        family=PROGRAM,
        program=(one.name or PROGRAM) if len(tests) == 1 else PROGRAM,
        version=version,
        complete=all(test.complete for test in tests) and begun <= len(tests),
        rows=tuple(row for test in tests for row in test.rows),
        units=units([column for test in tests for column in test.columns]),
        problems=capped(problems, loose),
        facts={
            "ranks": len(one.gpus),
            "nodes": len({gpu["node"] for gpu in one.gpus}),
            "gpus": one.gpus,
            "iterations": one.iterations,
            "validates": all(test.validates for test in tests),
            "average": [test.average for test in tests],
            **({"path": path} if path else {}),
            **(read_as(version, KNOWN) if version and versions[0][1] else {}),
        },
    )


class _Test:
    """One test: its rows, and what its other lines say."""

    def __init__(self, name: str | None, lines: Sequence[Line], problems: list[str]) -> None:
        number, start = lines[0][0], _START.fullmatch(lines[0][1])
        assert start is not None
        threads, gpus, self.first, self.last, self.step = (int(start[k]) for k in range(1, 6))
        self.grows = start[6] == "factor" and self.step > 1
        self.name, self.problems = name, problems
        self.iterations, self.validates = int(start[7]), False
        self.gpus: list[dict[str, Any]] = []
        self.columns: list[Column] = []
        self.rows: list[Row] = []
        self.loose: list[Line] = []
        self._stated: dict[str, float] = {}
        self._heads: list[str] = []
        self._printed: list[tuple[int, dict[str, str]]] = []
        self._only_in_place = self._ended = False
        self._in_place_too = True  # whether the data in place were compared, too
        for line in lines[1:]:
            self._take(line)
        found = sorted(gpu["rank"] for gpu in self.gpus)
        if (found != [*range(len(found))] or len(found) % (threads * gpus or 1)) and found:
            problems.append(f"line {number}: ranks are not in the list of devices: {found[:99]}")
        self.average = self._stated.get("Avg")
        if self._printed and self.gpus:
            self._compare(number)
        if len(self.gpus) == 1:
            problems.append(f"line {number}: one GPU: nothing was communicated")
        elif self.average == 0:
            problems.append(f"line {number}: the average bus bandwidth is 0")
        plan = self._plan()
        whole = bool(self.rows) and len(self.rows) % plan == 0
        if not whole:
            problems.append(f"line {number}: {len(self.rows)} of {plan} sizes were measured")
        self.complete = whole and bool(self.gpus) and len(self._stated) == 2 and self._ended
        if not self._ended:
            problems.append(f"line {number}: this test did not come to its end")

    def _take(self, line: Line) -> None:
        number, text = line
        words = text.split()
        if said := _RANK.match(text):
            gpu = {"rank": int(said[1]), "group": int(said[2] or 0), "node": said[3]}
            self.gpus.append({**gpu, "gpu": int(said[4]), "name": said[5]})
        elif said := _LEAST.fullmatch(text):
            self.last = int(said[1])
        elif "in-place" in words and words[0] == "#":
            self._only_in_place = "out-of-place" not in words
        elif words[:2] == ["#", "size"] and not self._heads:
            self._heads = words[1:]
            self.columns = _columns(line, self._heads, self._only_in_place)
        elif self._heads and re.match(r" *\d+ +\d+ +[a-z]", text):
            self._row(line, words)
        elif said := _STATED.match(text):
            self._stated[said[1][:3]] = value = real(said[2], number, text)
            if said[3] == "FAILED" or (value and said[1] == "Out of bounds values"):
                self.problems.append(f"line {number}: {text[2:].strip()}")
        elif said := _NAMED.fullmatch(text):
            self._ended |= said[1] == "concluded" and said[2] == self.name
        elif _FAILED.fullmatch(text):
            self.problems.append(f"line {number}: {text.strip()[:200]}")
        elif text == "#" and "Avg" in self._stated and self.name is None:
            self._ended = True
        else:
            self.loose.append(line)

    def _row(self, line: Line, tokens: list[str]) -> None:
        number, text = line
        if self._heads[-1] == "timestamp":
            tokens = tokens[:-1]  # of two words
        if len(tokens) == len(self._heads) - 1 and "redop" in self._heads:
            tokens.insert(self._heads.index("redop"), "")  # of alltoall_perf until 2.12
        if len(tokens) != len(self._heads):
            what = f"{len(tokens)} values for {len(self._heads)} columns"
            self.problems.append(f"line {number}: {what}: {quote(text)}")
            return
        row = [*zip(self._heads, tokens)]
        wrong = [said for head, said in row if head in ("#wrong", "error")]
        self.validates |= wrong != ["N/A"] * len(wrong)
        self._in_place_too &= "N/A" not in wrong
        counts = [real(said, number, text) for said in wrong if said != "N/A"]
        if not all(map(math.isfinite, counts)) or ("#wrong" in self._heads and any(counts)):
            self.problems.append(f"line {number}: wrong values: {quote(text)}")
        numbers = [said for head, said in row if head in ("size", "count", *_PLACED)]
        words = {head: dict(row).get(head, "") for head in _WORDS}
        for cell in cells((number, " ".join(numbers)), self.columns, self.problems):
            self.rows.append({"test": "", **words, **cell})
            self._printed.append((number, dict(zip((c.name for c in self.columns), numbers))))

    def _plan(self) -> int:
        """How many sizes are to be measured; a run may do it for several types or cycles."""
        if not self.grows:
            return max(0, self.last - self.first) // max(1, self.step) + 1
        count, size = 1, max(1, self.first)
        while (size := size * self.step) <= self.last:
            count += 1
        return count

    def _compare(self, line: int) -> None:
        """Find the name of the program, and numbers that contradict each other."""
        ranks = len(self.gpus) // len({gpu["group"] for gpu in self.gpus})
        self.name = name = self.name or self._guess(ranks)
        self.rows = [{**row, "test": name or ""} for row in self.rows]
        identities = []
        for end in ("", "_in_place"):
            if name not in ("alltoallv_perf", "hypercube_perf"):
                identities.append(f"bandwidth{end} * time{end} * 1000 = size")
            if name in _FACTORS:
                factor = _FACTORS[name].replace("N", str(ranks))
                identities.append(f"bus_bandwidth{end} = bandwidth{end} * {factor}")
        for row, (number, printed) in zip(self.rows, self._printed):
            said = contradictions([Identity(one, share=1e-3) for one in identities], row, printed)
            self.problems += [f"line {number}: {one}" for one in said]
        own = [float(v) for row in self.rows for k, v in row.items() if k.startswith("bus_band")]
        mean, average = sum(own) / len(own), self.average
        if average is not None and not math.isclose(average, mean, rel_tol=0.01, abs_tol=0.02):
            what = f"the average bus bandwidth is {average:g}, that of the rows {mean:g}"
            self.problems.append(f"line {line}: {what}")

    def _guess(self, ranks: int) -> str | None:
        """The program by its columns and bandwidths; None if another one prints the same."""
        if ranks < 2:
            return None
        row = max(self.rows, key=lambda row: float(row["size"]))
        own = int(row["count"]) * _BYTES.get(str(row["type"]), 0)
        rooted, reduces = row["root"] not in ("", "-1"), row["redop"] not in ("", "none")
        only_once = self.validates and not self._in_place_too
        end = "_in_place" if self._only_in_place else ""
        ratio = float(row[f"bus_bandwidth{end}"]) / (float(row[f"bandwidth{end}"]) or 1)
        if own and own * ranks == row["size"] and ranks > 1:
            if only_once or ("redop" in self._heads and row["redop"] == ""):
                return "alltoall_perf"
            if rooted or reduces:
                return None if rooted else "reduce_scatter_perf"
            return "all_gather_perf" if self.validates or "redop" not in self._heads else None
        if own != row["size"] or rooted:
            return None if not own else "reduce_perf" if reduces else "broadcast_perf"
        if "redop" not in self._heads or only_once or (ranks > 2 and ratio < 1.1):
            return "sendrecv_perf"
        return "all_reduce_perf" if self.validates or ranks > 2 else None


def _columns(line: Line, heads: Sequence[str], only_in_place: bool) -> list[Column]:
    """The columns of numbers, without those of wrong values.

    :raises ParseError: a heading is not known.
    """
    columns: list[Column] = []
    for head in heads:
        if head in ("size", "count"):
            columns.append(Column(head, "B" if head == "size" else "1", False, whole=True))
        elif head in _PLACED:
            name, unit = _PLACED[head]
            again = only_in_place or any(column.name == name for column in columns)
            name += "_in_place" * again
            columns.append(Column(name, unit, positive=unit == "us"))
        elif head not in (*_WORDS, "#wrong", "error", "timestamp"):
            raise ParseError(f"the column {head[:40]!r} of this table is not known", *line)
    if not columns or not any(column.name.startswith("bus_bandwidth") for column in columns):
        raise ParseError("the columns of this table are not known", *line)
    return columns


def _as_table(text: str) -> str:
    """The table that a file of ``-J`` stands for; numbers keep their digits.

    :raises ParseError: no such file, or one of an unknown form.
    """
    try:
        said = json.loads(text, parse_float=str)
        if said["version"] not in _FORMS:
            raise ParseError(f"version {said['version']!r:.20} of the file of -J is not known")
        return "\n".join([*_table_lines(said), ""])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = "cut, or not what -J writes"
        raise ParseError(f"a file of nccl-tests -J that is {what}: {error!r:.100}") from None


def _table_lines(said: Mapping[str, Any]) -> Iterator[str]:
    plan, results = said["config"], said["results"]
    grows = "step_factor" in plan
    step = f"{plan['step_factor']}(factor)" if grows else f"{plan['step_bytes']}(bytes)"
    name = str(said["args"][0]).rpartition("/")[2]
    yield f"# Collective test starting: {name}"
    yield (
        f"# nThread {plan['nthreads']} nGpus {plan['ngpus']} minBytes {plan['minimum_bytes']} "
        f"maxBytes {plan['maximum_bytes']} step: {step} warmup iters: {plan['warmup_iters']} "
        f"iters: {plan['iterations']} validation: {plan['validation']}"
    )
    for gpu in plan["devices"]:
        yield (
            f"#  Rank {gpu['rank']} Group {gpu['group']} Pid {gpu['pid']} on {gpu['hostname']} "
            f"device {gpu['device']} [{gpu['device_hex']}] {gpu['device_info']}"
        )
    places = [place for place in ("out_of_place", "in_place") if results[0][place] is not None]
    keys = [key for key in _KEYS if key in results[0][places[0]]]
    yield "#  " + " ".join(place.replace("_", "-") for place in places)
    heads = " ".join([*(_KEYS[key] for key in keys), "#wrong"])
    yield " ".join(["# size count", *_WORDS, *[heads] * len(places)])
    for row in results:
        own = [str(row[key]).strip() or "none" for key in ("size", "count", *_WORDS)]
        for of in (row[place] for place in places):
            own += [str(of[key]) for key in keys]
            own.append("N/A" if of["nwrong"] is None else str(of["nwrong"]))
        yield " ".join(own)
    if "out_of_bounds" in said and "average_bus_bandwidth" in said:
        bounds, average = said["out_of_bounds"], said["average_bus_bandwidth"]
        bad = [" FAILED" * (each["okay"] == "false") for each in (bounds, average)]
        yield f"# Out of bounds values : {bounds['count']}{bad[0]}"
        yield f"# Avg bus bandwidth : {average['bandwidth']}{bad[1]}"
        yield from (f"# error: {error}" for error in said.get("errors") or () if error)
        if "end_time" in said:
            yield f"# Collective test concluded: {name}"
