"""Real programs that send a few messages and print recorded numbers.

Their ranks, paths and logs are real. On a busy machine, ranks that share a processor take minutes
for the usual number of messages, and their rates are those of the scheduler.
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

from bench import DATA, Bench, Outcome, Run, live_program, live_ucx

#: Runs a port of an OSU test, and prints a recorded table.
PORT = """\
import contextlib, io, pathlib, runpy, sys

port = pathlib.Path(sys.argv[-1])
few = dict.fromkeys(("skip", "loop", "skip_large", "loop_large"), 1)
said = io.StringIO()
with contextlib.redirect_stdout(said):
    runpy.run_path(str(port))[port.stem](**few)
if said.getvalue():  # of rank 0
    print(pathlib.Path({table!r}).read_text(), end="")
"""

#: The head of a program for ucx_perftest. Its client prints a recorded row of that test, with the
#: number of messages that it was asked for.
CLIENT = """\
#!/bin/sh
asked() {{ echo "$words" | sed "s/.* $1 \\([^ ]*\\) .*/\\1/"; }}
client() {{
    words="$* "
    {real} $(echo "$words" | sed 's/ -n [0-9]* / -n 5 /') >few.out || return
    sed "s/^\\(Final: *\\)[0-9]* /\\1$(asked -n) /" {rows}."$(asked -t)".txt
}}
"""

#: A program for ucx_perftest.
PROGRAM = """\
case "$*" in
127.0.0.1*) client "$@" ;;
*) exec {real} "$@" ;;
esac
"""

#: A program for ucx_info that prints the recorded bandwidth of a memory copy.
INFO = """\
#!/bin/sh
[ "$*" = -M ] || exec {real} "$@"
cat {recorded}
"""


def latency(bench: Bench, *before: object, **variables: str) -> Run:
    """Runs the port of osu_latency over posix, started by `before`."""
    wrapper = bench.folder / "few_messages.py"
    table = str(DATA / "osu-py" / "osu_latency.4.1.2.np2.txt")
    wrapper.write_text(PORT.format(table=table))
    return bench.live_latency(*before, sys.executable, wrapper, **variables)


def perftest(bench: Bench, *arguments: str, program: str = PROGRAM, **more: Any) -> Run:
    """Runs tests of ucx_perftest with this program in its place, which may call `client`."""
    version, real = live_ucx(), shlex.quote(live_program("ucx_perftest"))
    rows = shlex.quote(str(DATA / "ucx-perftest" / "ucx_perftest.1.13.1"))
    copied = shlex.quote(str(DATA / "ucx-info" / "ucx_info.1.13.1.memcpy.txt"))
    info = INFO.format(real=shlex.quote(live_program("ucx_info")), recorded=copied)
    bench.partition()
    bench.program("few", "ucx_info", info)
    path = bench.program("few", "ucx_perftest", (CLIENT + program).format(real=real, rows=rows))
    bench.stack("few", ["ucx", "ucx-perftest"], path, ucx_version=version)
    return bench.run(*arguments, path="reframe/network/ucx_perftest.py", **more)


def problems(outcome: Outcome) -> list[str]:
    """The problems of a case, without those that any program has on a machine that is too busy.

    mpirun may not hear how its ranks ended, and the watch over open files may miss a short write.
    """
    said: list[str] = outcome.record["problems"]
    if any("mpirun probably did not answer them within 2 s" in problem for problem in said):
        said = [p for p in said if "ended with exit code" not in p and "did not answer" not in p]
    return [p for p in said if not p.startswith("the watch over open files saw nobody write")]
