"""What the job script writes down of a launch: ReFrame may not know the exit code of a benchmark.

The script's own commands come before and behind the benchmark's, and its exit code is that of the
benchmark. A job may also end without a benchmark, and says why in a file of one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from assay.checks import busy

FILE = "assay.launch"

#: Why the job did not begin the benchmark, in one line: a failure, or nothing that could be run.
REFUSED_FILE, SKIPPED_FILE = "assay.refused", "assay.skipped"

#: Where the script began; whatever it does after, files of ours are found there.
FIRST = "assay_stage=$PWD"
BEFORE = "assay_begin=$(date +%s.%N)"
BEHIND = (
    "assay_rc=$?",
    'printf "rc=%s begin=%s end=%s host=%s\\n" "$assay_rc" "$assay_begin" '
    f'"$(date +%s.%N)" "$(uname -n)" >"$assay_stage"/{FILE}',
)
LAST = "exit $assay_rc"

#: On a machine that others use, too: what :mod:`assay.checks.busy` reads of it, likewise.
SHARED_BEFORE = f"assay_before=$({busy.COMMAND})"
SHARED_BEHIND = (
    f"assay_behind=$({busy.COMMAND})",
    f'printf "%s\\n%s\\n" "$assay_before" "$assay_behind" >>"$assay_stage"/{FILE}',
)

_LINE = re.compile(r"rc=(\d+) begin=([\d.]+) end=([\d.]+) host=\S*\n(?:(.*)\n(.*)\n)?")


@dataclass(frozen=True)
class Launch:
    """How a benchmark ended.

    :ivar rc: its exit code, as the shell has it.
    :ivar begin, end: when it began and ended [s since the epoch].
    :ivar others: what other work took of the machine, None where nobody asked or could tell.
    """

    rc: int
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
    before, behind = (busy.Reading.parse(line or "") for line in match.group(4, 5))
    times = float(match[2]), float(match[3])
    return Launch(int(match[1]), *times, busy.between(before, behind))
