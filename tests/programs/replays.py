"""Recorded runs of xhpl at other speeds, and a program that replays another one at each start."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from bench import HPL, OF_NOW, Bench, Recorded, Run

from assay.parse import hpl
from assay.store import session
from assay.store.cases import Case, Session

#: Performance in the recorded run [GFLOP/s].
HEALTHY: float = hpl.parse_hpl(HPL.stdout).rows[0]["performance"]

IN_TURN = """
n=$(cat "$here/started")
echo $((n + 1)) >"$here/started"
[ -d "$here/$n" ] || n=last
of_now "$here/$n/stderr" >&2
of_now "$here/$n/stdout"
for file in "$here/$n"/files/*; do [ -e "$file" ] && of_now "$file" >"${file##*/}"; done
exit $(cat "$here/$n/rc")
"""


def scaled(factor: float) -> Recorded:
    """The recorded run at `factor` times its speed."""
    (line,) = [line for line in HPL.stdout.splitlines() if line.startswith(("WR", "WC"))]
    problem = line.split()[:-2]
    time = hpl.hpl_operations(int(problem[1])) / (HEALTHY * factor * 1e9)
    other = f"{' '.join(problem)} {time:.2f} {HEALTHY * factor:.4e}"
    return HPL.but(stdout=HPL.stdout.replace(line, other))


class Turns:
    """A stack whose program replays `runs` one after the other, and then repeats the last one."""

    def __init__(
        self,
        bench: Bench,
        runs: Sequence[Recorded],
        before: str = "",
        program: str = "xhpl",
        stack: tuple[str, str] = ("turns", "hpl"),
        **extras: Any,
    ) -> None:
        self._folder = bench.folder / "turns" / program
        self.replay(runs)
        script = f"#!/bin/sh\n{before}\nhere={self._folder}{OF_NOW}{IN_TURN}"
        name, word = stack
        bench.stack(name, [word], bench.program(name, program, script), **extras)

    def replay(self, runs: Sequence[Recorded]) -> None:
        """Replays these runs from now on, beginning with the first."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for name, run in [*enumerate(runs), ("last", runs[-1])]:
            turn = self._folder / str(name)
            turn.mkdir()
            (turn / "stdout").write_text(run.stdout)
            (turn / "stderr").write_text(run.stderr)
            (turn / "rc").write_text(str(run.rc))
            (turn / "files").mkdir()
            for file, text in run.files.items():
                (turn / "files" / file).write_text(text)
        (self._folder / "started").write_text("0")

    @property
    def started(self) -> int:
        """Number of starts of the program since the last `replay`."""
        return int((self._folder / "started").read_text())


def judged_hpl(
    bench: Bench, runs: Sequence[Recorded], *arguments: str, before: str = "", **partition: Any
) -> tuple[Turns, Run, Case, Session]:
    """Runs HPL on these runs. A launch passes from 95 % to 150 % of the healthy performance.

    :param before: a shell command at the start of each launch. Its processor time belongs to the
        benchmark.
    """
    bench.partition(launcher="replay", **partition)
    turns = Turns(bench, runs, before=before)
    metric = {"value": HEALTHY, "unit": "GFLOP/s", "lower": -0.05, "upper": 0.5}
    bench.expect("Hpl", {"performance": metric})
    run = bench.run("-n", "^Hpl$", *arguments, path="reframe/compute/hpl.py")
    report = session.load_session(session.newest(bench.results))
    (case,) = report.cases
    return turns, run, case, report
