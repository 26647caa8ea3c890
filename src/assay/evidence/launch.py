"""What the job script writes down of a launch: ReFrame may not know the exit code of a benchmark.

The script's own commands come before and behind the benchmark's, and its exit code is that of the
benchmark. A job may also end without a benchmark, and says why in a file of one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from assay.evidence import busy

FILE = "assay.launch"

#: Why the job did not begin the benchmark, in one line: a failure, or nothing that could be run.
REFUSED_FILE, SKIPPED_FILE = "assay.refused", "assay.skipped"

#: Where and when the script began; whatever it does after, files of ours are found there.
FIRST = "assay_stage=$PWD assay_start=$(date +%s.%N)"
BEFORE = "assay_begin=$(date +%s.%N)"
BEHIND = (
    "assay_rc=$?",
    'printf "rc=%s start=%s begin=%s end=%s host=%s\\n" "$assay_rc" "$assay_start" '
    f'"$assay_begin" "$(date +%s.%N)" "$(uname -n)" >"$assay_stage"/{FILE}',
)
LAST = "exit $assay_rc"

#: On a machine that others use, too: what :mod:`assay.evidence.busy` reads of it, likewise.
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

    :ivar rc: its exit code, as the shell has it.
    :ivar start: when the job script began, which does more than start it [s since the epoch].
    :ivar begin, end: when the benchmark began and ended, likewise.
    :ivar others: what other work took of the machine, None where nobody asked or could tell.
    """

    rc: int
    start: float
    begin: float
    end: float
    others: busy.Others | None = None

    @property
    def signal(self) -> int | None:
        """What it was killed by, None where it ended by itself."""
        return self.rc - 128 if self.rc > 128 else None


def parse(text: str) -> Launch:
    """What :data:`FILE` says.

    :raises ValueError: the file is torn.
    """
    match = _LINE.fullmatch(text)
    if match is None:
        raise ValueError(f"{FILE} is torn: {text.strip()!r}")
    before, behind = (busy.Reading.parse(line or "") for line in match.group(5, 6))
    start, begin, end = (float(time) for time in match.group(2, 3, 4))
    return Launch(int(match[1]), start, begin, end, busy.between(before, behind))


def times(launch: Launch, job: Any) -> dict[str, float]:
    """What of a job's time is the benchmark's, and what the scheduler's [s].

    ``benchmark`` is how long it took; ``began``, when, since the epoch; ``queue``, where there is a
    scheduler, how long the job waited before its script began, and was seen unfinished after the
    benchmark had ended.
    """
    found = {"benchmark": launch.end - launch.begin, "began": launch.begin}
    if not job.scheduler.is_local:
        last = getattr(job, "seen_unfinished", None) or 0.0
        waited = max(launch.start - job.submit_time, 0.0)
        found["queue"] = waited + max(last - launch.end, 0.0)
    return found
