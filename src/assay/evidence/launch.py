"""The record of a launch by its job script: ReFrame may not know the exit code of a benchmark.

The script runs its own commands before and after the benchmark, and its exit code is the exit code
of the benchmark. A job may also end without a benchmark. The job then states the reason in a file
of one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from assay.evidence import busy

FILE = "assay.launch"

#: Files with the reason why the job did not begin the benchmark, in one line. The first file means
#: a failure; the second file means that there was nothing that could run.
REFUSED_FILE, SKIPPED_FILE = "assay.refused", "assay.skipped"

#: Stores where and when the script began. Later commands find our files there, wherever they run.
FIRST = "assay_stage=$PWD assay_start=$(date +%s.%N)"
BEFORE = "assay_begin=$(date +%s.%N)"
BEHIND = (
    "assay_rc=$?",
    'printf "rc=%s start=%s begin=%s end=%s host=%s\\n" "$assay_rc" "$assay_start" '
    f'"$assay_begin" "$(date +%s.%N)" "$(uname -n)" >"$assay_stage"/{FILE}',
)
LAST = "exit $assay_rc"

#: On a shared machine: the readings of :mod:`assay.evidence.busy` before and after the benchmark.
SHARED_BEFORE = f"assay_before=$({busy.COMMAND})"
SHARED_BEHIND = (
    f"assay_behind=$({busy.COMMAND})",
    f'printf "%s\\n%s\\n" "$assay_before" "$assay_behind" >>"$assay_stage"/{FILE}',
)

_LINE = re.compile(
    r"rc=(\d+) start=([\d.]+) begin=([\d.]+) end=([\d.]+) host=\S*\n(?:(.*)\n(.*)\n)?"
)


@dataclass(frozen=True)
class Launch:
    """How a benchmark ended.

    :ivar rc: its exit code, as the shell reports it.
    :ivar start: when the job script began [s since the epoch]; the script does more than start the
        benchmark.
    :ivar begin, end: when the benchmark began and ended [s since the epoch].
    :ivar others: what other work took of the machine; None if not asked for or not known.
    """

    rc: int
    start: float
    begin: float
    end: float
    others: busy.Others | None = None

    @property
    def signal(self) -> int | None:
        """The signal that killed the benchmark, None if it ended by itself."""
        return self.rc - 128 if self.rc > 128 else None


def parse(text: str) -> Launch:
    """Parses the content of :data:`FILE`.

    :raises ValueError: the file is torn.
    """
    match = _LINE.fullmatch(text)
    if match is None:
        raise ValueError(f"{FILE} is torn: {text.strip()!r}")
    before, behind = (busy.Reading.parse(line or "") for line in match.group(5, 6))
    start, begin, end = (float(time) for time in match.group(2, 3, 4))
    return Launch(int(match[1]), start, begin, end, busy.between(before, behind))


def times(launch: Launch, job: Any) -> dict[str, float]:
    """The times of the benchmark and of the scheduler in a job [s].

    ``benchmark`` is the duration of the benchmark. ``began`` is its start, since the epoch.
    ``queue`` exists only with a scheduler. It is the time that the job waited before its script
    began, plus the time that it was seen unfinished after the benchmark had ended.
    """
    found = {"benchmark": launch.end - launch.begin, "began": launch.begin}
    if not job.scheduler.is_local:
        last = getattr(job, "seen_unfinished", None) or 0.0
        waited = max(launch.start - job.submit_time, 0.0)
        found["queue"] = waited + max(last - launch.end, 0.0)
    return found
