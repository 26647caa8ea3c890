"""IOR: ranks that write and read files in parallel, versions 3.0 to 4.1 (ior.c, ior-output.c).

IOR's exit code is its number of errors, of which the shell keeps the last eight bits. It counts
each wrong place twice, so 128 wrong places end with exit code 0. IOR also goes on after a write
that was cut short. The parser therefore reports each warning, except those that follow from the
time limit of a phase (`stonewalling`: a rank then moves fewer bytes than its block has), and those
that say what an interface cannot do.

IO500 has IOR as a library since 2020. It then prints no summary: the last result is the last line.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from assay.parse import Parsed, ParseError, Value
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

#: Column of a row -> its headings in the table of results and in the summary, its keys in JSON, and
#: its names in the options, all as far as they have it.
_HEADINGS = {
    **{"bandwidth": "bw(MiB/s)|bwMiB", "time": "total(s)|totalTime"},
    **{"block_kib": "block(KiB)|blockKiB", "transfer_kib": "xfer(KiB)|xferKiB"},
    **{"limited_after": "Stonewall(s)|StoneWallTime"},
    **{"phase": "Test#|TestID", "ranks": "#Tasks|numTasks|tasks"},
    **{"ranks_per_node": "tPN|tasksPerNode|clients per node", "repetitions": "reps|repetitions"},
    **{"file_per_rank": "fPP|filePerProc", "shifted": "reord|reorderTasks"},
    **{"shift": "reordoff|taskPerNodeOffset|task offset", "api": "API|api"},
    **{"segments": "segcnt|segmentCount|segments", "block": "blksiz|blockSize|blocksize"},
    **{"transfer": "xsize|transferSize|xfersize"},
}
_COLUMNS = {said: name for name, all_said in _HEADINGS.items() for said in all_said.split("|")}
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

_TITLE = re.compile(
    r"IOR-(\S+): MPI Coordinated Test of Parallel I/O|[{\s]*\"Version\": \"([^\"]+)\", ?"
)
_SAID = re.compile(
    r"WARNING: (Expected|Stat\(\) of|Using actual) aggregate .*= (-?\d{1,19})\.?", re.ASCII
)
_LIMITED = re.compile(r"stonewalling pairs accessed .* time: ([\d.]{1,20})s")
_IO500 = re.compile(r"\./ior .*-k -e -o ")

recognise = recogniser(_TITLE)


def is_wrong(line: str) -> bool:
    """Whether IOR or mdtest reports by a line that something is wrong."""
    return bool(_REPORT.fullmatch(line) or CRASH.search(line)) and not _HARMLESS.fullmatch(line)


def parse_ior(text: str) -> Parsed:
    """Read the output of one run of ``ior``, in its default format or as JSON.

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
    if (title[1] or title[2]).startswith("2."):
        raise ParseError(f"IOR {title[1] or title[2]} has another form; 3.0 and later are read")
    log = _Log()
    for number, line in without_warnings(lines[:-1], framed=True):  # the last line has no end
        log.take(number, line)
    rows, problems = log.rows(), log.problems
    command = log.phases[0].get("Command line") or log.phases[0].get("Command line used") or ""
    stated = sum(integer(one.get("repetitions", ""), 0, "") for one in log.summary)
    if not log.summary and _IO500.match(command):
        ended = [row["repetitions"] for row in rows] == [len(rows)] * len(rows)
        ended = ended and not any(lines[log.last :])
    else:
        ended = log.ended
        if ended and stated != len(log.results):
            problems.append(f"{len(log.results)} results, the summary has {stated}")
    if not ended:
        problems.insert(0, "IOR did not come to its end")
    ranks = {row["ranks"] for row in rows}
    said = [options.get("nodes", "") for options in log.phases]
    nodes = [int(one) for one in said if re.fullmatch("[0-9]{1,9}", one)]
    return Parsed(
        family="ior",
        program="ior",
        version=title[1] or title[2],
        complete=ended and len(rows) == len(log.results) > 0 and stated in (0, len(rows)),
        rows=tuple(rows),
        units=_UNITS,
        problems=capped(problems),
        facts={
            "command_line": command or None,
            "nodes": max(nodes, default=None),
            "ranks": ranks.pop() if len(ranks) == 1 else None,
            **read_as(title[1] or title[2], KNOWN),
        },
    )


class _Log:
    """What the lines of IOR say, in its default format and as JSON.

    :ivar phases: what was said before the first phase, then the options of each phase.
    :ivar results: the words of each row of results by column, with what was said of it before.
    :ivar summary: the words of the row of each phase and operation.
    :ivar last: the line of the last result.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.phases: list[dict[str, str]] = [{}]
        self.results: list[dict[str, str]] = []
        self.summary: list[dict[str, str]] = []
        self.last, self.ended = 0, False
        self._head: list[str] = []
        self._into: dict[str, str] | None = None
        self._before: dict[str, str] = {}

    def take(self, number: int, line: str) -> None:
        """Read a line of the program; its messages stand between the lines of the tables."""
        words = line.split()
        key, value = _pair(line)
        if self._is_message(number, line):
            return
        if words and words[-1] in ("iter", "RefNum"):
            self._head = words
        elif self._head and words and words[0] in ("write", "read"):
            if len(words) == len(self._head):
                self._begin(number, words[0], self._head[0] == "Operation")
                self._name(zip(self._head, words))
            else:
                self.problems.append(f"line {number}: cut short: {line.strip()[:120]}")
        elif key in ("access", "operation") and value in ("write", "read", "remove"):
            self._begin(number, value, key == "operation")
        elif key == "Finished" or (key == "}" and "Finished" in self.phases[0]):
            self.ended = key == "}" or '"' not in line
            self.phases[0]["Finished"] = value
        elif (key == "TestID" and not self.summary) or re.fullmatch(r"Test \d+ started", key):
            self.phases.append({})
            self._into = None
        elif self._into is not None:
            self._name([(key, value)])
        else:
            self.phases[-1].setdefault(key, value)

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

    def _begin(self, number: int, operation: str, of_summary: bool) -> None:
        self._into = {"operation": operation}
        if of_summary:
            self.summary.append(self._into)
        elif operation != "remove":  # of which JSON has a time, too
            self._into |= {"of": str(len(self.phases) - 1), **self._before}
            self._before = {}
            self.results.append(self._into)
            self.last = number

    def _name(self, words: Iterable[tuple[str, str]]) -> None:
        assert self._into is not None
        self._into |= {_COLUMNS[key]: value for key, value in words if key in _COLUMNS}

    def rows(self) -> list[dict[str, Value]]:
        """The rows whose settings are known: the summary has them, or the options of the phase."""
        summary = {(one.get("phase"), one["operation"]): one for one in self.summary}
        rows: list[dict[str, Value]] = []
        done: Counter[tuple[str, str]] = Counter()
        for one in self.results:
            phase = int(one["of"]) - 1
            key, options = (f"{phase}", one["operation"]), self.phases[phase + 1]
            said = summary.get(key) or _settings(options, one)
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
                "phase": phase,
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


def _pair(line: str) -> tuple[str, str]:
    """Key and value of a line: `key : value`, `key = value` after a tab, or those of JSON."""
    key, _, value = line.partition("=" if line.startswith("\t") else ":")
    return key.strip(' \t{["'), value.strip(' \t,"')


def _settings(options: Mapping[str, str], result: Mapping[str, str]) -> dict[str, str]:
    """The settings as the options say them; before 3.2, only the summary has all of them.

    The options have a size exactly if it is short; the table of results has it in KiB.
    """
    said = {_COLUMNS[key]: value for key, value in options.items() if key in _COLUMNS}
    said["file_per_rank"] = str(int(options.get("access") == "file-per-process"))
    said["shifted"] = str(int("constant" in options.get("ordering inter file", "")))
    said.setdefault("shift", "1")
    for name in ("block", "transfer"):
        size, _, unit = said.get(name, "").partition(" ")
        if unit != "bytes" and f"{name}_kib" in result:
            value = real(result[f"{name}_kib"], 0, "") * 1024
            size = str(round(value)) if math.isfinite(value) else ""
        said[name] = size
    return said
