"""The record of a launch by its job script: ReFrame may not know the exit code of a benchmark.

The script runs its own commands before and after the benchmark, and its exit code is the exit code
of the benchmark. A job may also end without a benchmark. The job then states the reason in a file
of one line.

ReFrame writes a nonce into the stage directory before it submits the job. The script reads it at
its start and repeats it, so a record of an earlier launch is not taken for that of this one. The
script reads two clocks: the time of day, which somebody may set, and the time since the boot.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from assay import files
from assay.prove import busy

FILE = "assay.launch"

#: Files with the reason why the job did not begin the benchmark, in one line. The first file means
#: a failure; the second file means that there was nothing that could run.
REFUSED_FILE, SKIPPED_FILE = "assay.refused", "assay.skipped"

#: The nonce of a launch. ReFrame writes the file, the job script and its ranks read it.
NONCE_FILE = "assay.nonce"

_LINES = files.own(__file__, dict[str, Any])
FIRST, BEFORE, BEHIND, LAST, SHARED_BEFORE, SHARED_BEHIND = (
    _LINES[key] for key in ("first", "before", "behind", "last", "shared_before", "shared_behind")
)

#: How OSU and IOR refuse an option that a newer version has.
UNKNOWN_OPTION = re.compile(
    r"^.*\b(?:invalid|unrecognized) (?:option\b|argument *[-\[:'`]).*$", re.I | re.MULTILINE
)

_LINE = re.compile(
    r"rc=(\d+) start=([\d.]+) begin=([\d.]+) end=([\d.]+) zone=([+-]\d{4}) host=(\S*) "
    r"up=([\d.]+)\.\.([\d.]+) down=([\d.]+)\.\.([\d.]+) nonce=(\S*)\n(?:(.*)\n(.*)\n)?"
)


@dataclass(frozen=True)
class Launch:
    """How a benchmark ended.

    :ivar rc: its exit code, as the shell reports it.
    :ivar start: when the job script began [s since the epoch].
    :ivar begin, end: when the benchmark began and ended [s since the epoch].
    :ivar up, down: time since the boot of that node just before and just after the script read
        `start`, and `end` [s]. On a busy machine seconds may be between the two.
    :ivar zone: offset of the node's local time from UTC [s].
    :ivar others: what other work took of the machine; None if not asked for or not known.
    """

    rc: int
    start: float
    begin: float
    end: float
    host: str
    up: tuple[float, float]
    down: tuple[float, float]
    zone: float
    nonce: str
    others: busy.Others | None = None

    @property
    def longest(self) -> float:
        """How long the script took at most, by the time since the boot [s]."""
        return self.down[1] - self.up[0]

    @property
    def signal(self) -> int | None:
        """The signal that killed the benchmark, None if it ended by itself. Linux has 64."""
        return self.rc - 128 if 128 < self.rc <= 128 + 64 else None


def same_mpi(mpirun: str) -> str:
    """The line that ends a job whose programs were compiled for the MPI of another mpirun."""
    now = '"$(readlink -f "$(command -v mpirun)")"'
    why = f"the programs were compiled with {mpirun}, and mpirun is another: type make programs"
    said = f"echo {shlex.quote(why)} | tee {REFUSED_FILE} >&2"
    return f"[ {now} = {shlex.quote(mpirun)} ] || {{ {said}; exit 1; }}"


def parse_launch(text: str) -> Launch:
    """Parses the content of :data:`FILE`.

    :raises ValueError: the file is torn.
    """
    match = _LINE.fullmatch(text)
    if match is None:
        raise ValueError(f"{FILE} is torn: {text.strip()!r}")
    before, behind = (busy.Reading.parse(line or "") for line in match.group(12, 13))
    start, begin, end, *since_boot = (float(time) for time in match.group(2, 3, 4, 7, 8, 9, 10))
    zone = 3600.0 * int(match[5][:3]) + 60.0 * int(match[5][0] + match[5][3:])
    return Launch(
        rc=int(match[1]), start=start, begin=begin, end=end, host=match[6],
        up=(since_boot[0], since_boot[1]), down=(since_boot[2], since_boot[3]), zone=zone,
        nonce=match[11], others=busy.between(before, behind),
    )  # fmt: skip


#: Two clocks of a node may differ by this much: absolute [s], and as a share of the time.
APART = (1.0, 0.02)

#: How far the clocks of two nodes may be apart before dates are not comparable [s].
NODES_APART = 300.0


def wrong_clock(launch: Launch, submitted: float, now: float) -> list[str]:
    """Problems of the time of day on the node of a launch, one line each.

    :param submitted: when ReFrame submitted the job [s since the epoch].
    :param now: when ReFrame saw that it had ended.
    """
    took, passed = launch.end - launch.start, launch.longest
    slack = APART[0] + APART[1] * passed
    if not launch.start <= launch.begin <= launch.end or not (
        launch.down[0] - launch.up[1] - slack <= took <= passed + slack
    ):
        said = f"the clock of {launch.host} jumped or runs wrong: by the time of day the launch"
        return [f"{said} took {took:.1f} s, by the time since the boot {passed:.1f} s"]
    if not submitted - NODES_APART <= launch.start <= launch.end <= now + NODES_APART:
        ran = f"the launch ran from {_date(launch.start)} to {_date(launch.end)}"
        known = f"it was submitted at {_date(submitted)} and had ended at {_date(now)}"
        return [f"the clock of {launch.host} is wrong: it says that {ran}, {known}"]
    return []


def out_of_time(launch: Launch, claimed: float, text: str, slack: float = 0.0) -> list[str]:
    """Times in an output that do not fit the launch, one line each.

    :param claimed: how long the program says that it computed or wrote, at least [s].
    :param text: the output; its dates must be from the time of the launch.
    :param slack: how far the dates may be off [s], for a program whose time zone is not known.
    """
    took, another = launch.longest, "is it the output of another launch?"
    problems = []
    if claimed > took + SHORT + APART[1] * took:
        accounts = f"the output accounts for {claimed:.1f} s"
        problems.append(f"{accounts}, the launch took {took:.1f} s: {another}")
    for match in _DATE.finditer(text):
        if _BUILD.search(text, text.rfind("\n", 0, match.start()) + 1, match.start()):
            continue
        try:
            said = datetime.strptime(" ".join(match[0].split()), "%a %b %d %H:%M:%S %Y")
        except ValueError:
            continue  # no date of a calendar
        date = said.replace(tzinfo=timezone.utc).timestamp() - launch.zone
        if not launch.start - LATE - slack <= date <= launch.end + LATE + slack:
            ran = f"the launch ran from {_date(launch.start)} to {_date(launch.end)}"
            problems.append(f"the output is dated {_date(date)}, {ran}: {another}")
            break
    return problems


#: A date as asctime(3) writes it. HPL, HPCC, IOzone and IMB date their output in this form.
_DATE = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
    r"[ \d]\d \d\d:\d\d:\d\d \d{4}\b",
    re.ASCII,
)
#: What stands before the date of a build, which may be any.
_BUILD = re.compile(r"\b(?:built|compiled)\b", re.IGNORECASE)

#: Programs date their output in whole seconds, and start a little after the job script [s].
LATE = 2.0

#: Time that an output may account for beyond that of its launch, because processes overlap and
#: times are rounded [s].
SHORT = 5.0


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s since the epoch"


def stale(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Files of a stage directory that are older than the launch, one line each.

    ReFrame wrote the nonce just before the launch. Both times are those of the file system.

    :param patterns: names of files that the launch must have written. Empty files do not count.
    """
    try:
        began = (folder / NONCE_FILE).stat().st_mtime
    except OSError:
        return [f"{NONCE_FILE} is missing: the files of this launch cannot be told from others"]
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return [
        f"{path.name} is older than the launch: it was written at {_date(written.st_mtime)}"
        for path in sorted(found)
        if (written := path.stat()).st_size and written.st_mtime < began - 1
    ]


def short_name(host: str) -> str:
    """The name of a host without its domain; an address stays as it is."""
    return host if re.fullmatch(r"[\d.:]+", host) else host.partition(".")[0].lower()


def elsewhere(hosts: Iterable[str], allocated: Sequence[str], script: str) -> list[str]:
    """Hosts on which a program ran without having been given them, one line.

    :param allocated: the hosts of the job, as the scheduler names them.
    :param script: the host on which the job script ran. If the scheduler has another name for it,
        its names cannot be compared.
    """
    given = {short_name(host): host for host in allocated or [script]}
    others = sorted(host for host in set(hosts) if short_name(host) not in given)
    if short_name(script) not in given or not others:
        return []
    has = ", ".join(sorted(given.values()))
    return [f"the program ran on {', '.join(others)}; the job has {has}"]
