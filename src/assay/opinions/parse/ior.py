"""IOR: ranks that write and read files in parallel, versions 3.0 to 4.1 (ior.c, ior-output.c).

IOR's exit code is its number of errors, of which the shell keeps the last eight bits. It counts
each wrong place twice, so 128 wrong places end with exit code 0. IOR also goes on after a write
that was cut short. The parser therefore reports each warning, except those that follow from the
time limit of a phase (`stonewalling`: a rank then moves fewer bytes than its block has), and those
that say what an interface cannot do.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from assay.parse import Parsed, Value
from assay.parse.reading import (
    CRASH,
    integer,
    only,
    read_as,
    real,
    recogniser,
    split,
    without_warnings,
)
from assay.parse.tables import Identity, capped, contradictions

KNOWN = ("3.0", "3.1", "3.2", "3.3", "3.4", "4.0", "4.1")
MIB = 2**20
_REPORT = re.compile(
    r"(?:ior )?(?:WARNING|ERROR): .*|.*\bAssertion `.*' failed\.|\[\d{1,9}\] FAILED comparison .*"
    r"|[\d/: ]*Process \d{1,9}\S* FAILED in .*|[Ee]rror (?:could not|invalid argument).*"
)
#: A report that says nothing against the numbers.
_HARMLESS = re.compile(
    r"(?:ior )?WARNING: (?:the StoneWallingStatusFile only preserves the last experiment, .*"
    r"|[Mm]aybe caused by deadlineForStonewalling.*|.*  ?Using value of -?\d+\.|Read bytes is 0, .*"
    r"|Backend (?:returned error during|doesn't implement) statfs.*|The file .* exists already .*"
    r"|.*(?:not (?:supported|implemented|available)|n't support) .*|uname failed.*"
    r"|cannot get platform name.*|unable to use realpath\(\) .*)"
)

#: Heading in the table of results or in the summary -> column of a row.
_COLUMNS = {
    **{"bw(MiB/s)": "bandwidth", "total(s)": "time", "Stonewall(s)": "limited_after"},
    **{"Test#": "phase", "#Tasks": "ranks", "tPN": "ranks_per_node", "reps": "repetitions"},
    **{"fPP": "file_per_rank", "reord": "shifted", "reordoff": "shift", "API": "api"},
    **{"segcnt": "segments", "blksiz": "block", "xsize": "transfer"},
}
_SETTINGS = (
    *("ranks", "ranks_per_node", "repetitions", "file_per_rank", "shifted", "shift", "segments"),
    *("block", "transfer"),
)
_UNITS = {
    **{"bandwidth": "MiB/s", **dict.fromkeys(("time", "limited_after"), "s")},
    **dict.fromkeys(("moved", "block", "transfer"), "B"),
    **dict.fromkeys(("phase", "repetition", *_SETTINGS[:7]), "1"),
}
_CONTRADICTS = "{operation}: {bandwidth:.2f} MiB/s for {time:.5f} s are not {moved} B"
_IDENTITIES = (
    Identity("1e-6 <= bandwidth", _CONTRADICTS),
    Identity(f"bandwidth * time = moved / {MIB}", _CONTRADICTS, share=0.01),
)

_TITLE = re.compile(r"IOR-(\S+): MPI Coordinated Test of Parallel I/O")
_SAID = re.compile(
    r"WARNING: (Expected|Stat\(\) of|Using actual) aggregate .*= (-?\d{1,19})\.?", re.ASCII
)
_LIMITED = re.compile(r"stonewalling pairs accessed .* time: ([\d.]{1,20})s")
_PHASE = re.compile(r"TestID +: .*|Test \d+ started: .*")

recognise = recogniser(_TITLE)


def is_wrong(line: str) -> bool:
    """Whether IOR or mdtest reports by a line that something is wrong."""
    return bool(_REPORT.fullmatch(line) or CRASH.search(line)) and not _HARMLESS.fullmatch(line)


def parse_ior(text: str) -> Parsed:
    """Read the output of one run of ``ior`` in its default format.

    There is one row for each repetition of a phase: ``operation`` (``write`` or ``read``),
    ``bandwidth`` [MiB/s], ``time`` [s], ``limited_after`` [s], the time after which the ranks
    stopped and then made up for the slower ones (0 without such a limit), ``moved`` [B] by all
    ranks, ``phase``, ``repetition``, ``ranks``, ``ranks_per_node``, ``repetitions``,
    ``file_per_rank`` (0 or 1), ``shifted`` (0 or 1) and ``shift`` (whether and by how many nodes a
    rank reads beside what it wrote), ``segments``, ``block`` [B], ``transfer`` [B], ``api``.

    ``facts``: ``command_line``; ``ranks`` and ``nodes``, as IOR counted them.

    :raises ParseError: no title, or several (ranks that ran alone), or a row that does not fit its
        header.
    """
    lines = split(text)
    _, title = only(lines, _TITLE, "title of IOR")
    log = _Log()
    for number, line in without_warnings(lines[:-1], framed=True):  # the last line has no end
        log.take(number, line)
    rows, problems = log.rows(), log.problems
    command = log.phases[0].get("Command line") or log.phases[0].get("Command line used") or ""
    stated = sum(integer(one.get("repetitions", ""), 0, "") for one in log.summary.values())
    if not log.ended:
        problems.insert(0, "IOR did not come to its end")
    elif stated != len(log.results):
        problems.append(f"{len(log.results)} results, the summary has {stated}")
    ranks = {row["ranks"] for row in rows}
    said = [options.get("nodes", "") for options in log.phases]
    nodes = [int(one) for one in said if re.fullmatch("[0-9]{1,9}", one)]
    return Parsed(
        family="ior",
        program="ior",
        version=title[1],
        complete=log.ended and stated == len(rows) == len(log.results) > 0,
        rows=tuple(rows),
        units=_UNITS,
        problems=capped(problems),
        facts={
            "command_line": command or None,
            "nodes": max(nodes, default=None),
            "ranks": ranks.pop() if len(ranks) == 1 else None,
            **read_as(title[1], KNOWN),
        },
    )


class _Log:
    """What the lines of IOR say.

    :ivar phases: what was said before the first phase, then the options of each phase.
    :ivar results: the words of each row of results by column, with what was said of it before.
    :ivar summary: phase and operation -> the words of its row.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.phases: list[dict[str, str]] = [{}]
        self.results: list[dict[str, str]] = []
        self.summary: dict[tuple[str, str], dict[str, str]] = {}
        self.ended = False
        self._head: list[str] = []
        self._before: dict[str, str] = {}

    def take(self, number: int, line: str) -> None:
        """Read a line of the program; its messages stand between the lines of the tables."""
        words = line.split()
        if self._is_message(number, line):
            return
        if words and words[-1] in ("iter", "RefNum"):
            self._head = words
        elif self._head and words and words[0] in ("write", "read"):
            if len(words) == len(self._head):
                self._row(words)
            else:
                self.problems.append(f"line {number}: cut short: {line.strip()[:120]}")
        elif _PHASE.match(line) and not self.summary:
            self.phases.append({})
        else:
            key, _, value = line.partition(":")
            self.phases[-1].setdefault(key.strip(), value.strip())
            self.ended |= key.strip() == "Finished"

    def _row(self, words: list[str]) -> None:
        named = zip(self._head, words)
        row = {_COLUMNS[head]: word for head, word in named if head in _COLUMNS}
        if self._head[0] == "Operation":
            self.summary[row.get("phase", ""), words[0]] = row
        else:
            of = str(len(self.phases) - 2)
            self.results.append({"operation": words[0], "phase": of, **self._before, **row})
            self._before = {}

    def _is_message(self, number: int, line: str) -> bool:
        if said := _SAID.match(line):
            self._before[said[1]] = said[2]
        elif said := _LIMITED.match(line):
            self._before["limited_after"] = said[1]
        elif is_wrong(line):
            self.problems.append(f"line {number}: {line[:200]}")
        else:
            return bool(_HARMLESS.fullmatch(line))
        return True

    def rows(self) -> list[dict[str, Value]]:
        """The rows whose settings the summary has."""
        rows: list[dict[str, Value]] = []
        done: Counter[tuple[str, str]] = Counter()
        for one in self.results:
            key = one["phase"], one["operation"]
            said, options = self.summary.get(key, {}), self.phases[int(one["phase"]) + 1]
            if not (said.keys() >= {*_SETTINGS, "api"} and one.keys() >= {"bandwidth", "time"}):
                continue
            settings: dict[str, Value] = {n: integer(said[n], 0, said[n]) for n in _SETTINGS}
            settings["api"] = said["api"]
            limit = said.get("limited_after", one.get("limited_after", "NA"))
            planned = math.prod(int(settings[name]) for name in ("ranks", "segments", "block"))
            moved = int(one.get("Using actual", planned))
            row: dict[str, Value] = {
                "operation": one["operation"],
                "bandwidth": real(one["bandwidth"], 0, one["bandwidth"]),
                "time": real(one["time"], 0, one["time"]),
                "limited_after": 0.0 if limit == "NA" else real(limit, 0, limit),
                "moved": moved,
                "phase": int(one["phase"]),
                "repetition": done[key],
                **settings,
            }
            rows.append(row)
            done[key] += 1
            self.problems += contradictions(_IDENTITIES, row, one)
            found = int(one.get("Stat() of", moved))
            limited = row["limited_after"] or any("onewalling" in name for name in options)
            # A read may leave a part out: after stonewalling it reads what each rank had written.
            more = found > moved and not (limited or row["operation"] == "read")
            if found < moved or more:
                what = f"{key[1]}: the files have {found} B, {moved} B were moved"
                self.problems.append(what)
        return rows
