"""Ends what a run started if the run dies: a process that lives as long as its run, and then acts.

ReFrame ends its jobs when it is interrupted. SIGKILL and the out-of-memory killer give it no time.
The leash reads a pipe that only ReFrame writes to, so the kernel tells it of the end of ReFrame.
Processes of this machine are found by a variable that they inherit, also in sessions of their own.
A job whose ``sbatch`` has not answered yet is not known. This file is also the program of the leash
and needs no other one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "ASSAY_LEASH"

#: How long processes may take to end after SIGTERM, and after SIGKILL [s].
GRACE_S, KILL_S = 2.0, 60.0

#: Pauses between the tries to cancel jobs, because Slurm may be silent [s].
PAUSES_S = (0, 10, 20, 40, 80, 160)

#: The pipe of the run of this process.
_pipe: list[Any] = []


@contextlib.contextmanager
def held(log: Path) -> Iterator[None]:
    """If this process dies within the context, or an exception leaves it, all it started ends.

    :param log: where the leash says what it ended.
    """
    mark = f"{os.getpid()}-{time.time_ns()}"
    leash = subprocess.Popen(
        [sys.executable, "-I", __file__, mark, str(log)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    _pipe[:] = [leash.stdin]
    os.environ[VARIABLE] = mark
    yield
    tell("done")
    del _pipe[:], os.environ[VARIABLE]
    leash.communicate()


def tell(word: str, job: object = "") -> None:
    """Tells the leash that a job of Slurm is submitted (``+``) or has ended (``-``)."""
    for pipe in _pipe:
        with contextlib.suppress(OSError):  # somebody killed the leash
            os.write(pipe.fileno(), f"{word} {job}\n".encode())


def _main(mark: str, log: str) -> None:
    jobs: dict[str, None] = {}
    for line in sys.stdin:
        word, _, job = line.strip().partition(" ")
        if word == "done":
            return
        jobs.pop(job, None)
        if word == "+":
            jobs[job] = None
    sessions: set[int] = set()
    said = [f"{len(_signalled(mark, sessions, signal.SIGTERM))} processes got SIGTERM"]
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end:
        time.sleep(0.1)
        _signalled(mark, sessions, 0)  # one that was just being started has the mark only now
    end = time.monotonic() + KILL_S
    while _signalled(mark, sessions, signal.SIGKILL) and time.monotonic() < end:
        time.sleep(0.1)
    for pause in PAUSES_S if jobs else ():
        time.sleep(pause)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if not subprocess.run(["scancel", *jobs], timeout=120, check=False).returncode:
                said.append(f"cancelled the jobs {' '.join(jobs)}")
                break
    else:
        said += [f"scancel failed; type: scancel {' '.join(jobs)}"] if jobs else []
    with Path(log).open("a", encoding="utf-8") as stream:
        stream.write(f"leash: the run was killed: {'; '.join(said)}\n")


def _signalled(mark: str, sessions: set[int], number: int) -> list[int]:
    """The processes of the run, each of which got the signal.

    :param sessions: those that the run began. What is in them belongs to it also without the mark,
        as in a container with an environment of its own.
    """
    found = []
    for process in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
            session = int(stat[3])
            words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            if marked := f"{VARIABLE}={mark}".encode() in words:
                sessions |= {process} & {session}
            if (marked or session in sessions) and stat[0] != b"Z":
                os.kill(process, number)
                found.append(process)
    return found


if __name__ == "__main__":
    _main(*sys.argv[1:])
