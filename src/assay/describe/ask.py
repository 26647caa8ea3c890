"""What programs of this machine answer, each within a time limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

from assay.describe.slurm import QUERIES, Answers
from assay.node import answers

#: Time limit for a program to report what it is [s].
LIMIT = 30

#: Command that was asked -> its exit code; None if it did not end in time.
ended: dict[tuple[str, ...], int | None] = {}


def output(*command: str) -> str:
    """Standard output and error of a short command, empty if it cannot be run.

    A warning names a command that hangs. Otherwise its silence would look like a missing program.
    """
    asked = command[0] in answers.hung
    try:
        code, said = answers.bounded(list(command), LIMIT)
    except OSError:
        return ""
    ended[command] = code
    if code is None and not asked:
        what = f"{answers.hung[command[0]]}; what it would have said is missing"
        print(f"assay: {what}", file=sys.stderr)
    return str(said.decode(errors="replace"))


def run(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a long command in the session of this process: Ctrl-C ends it, too.

    One that cannot be run, or does not end in time, has exit code 1 and the reason as its error.
    """
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=seconds, env=environment, check=False,
        )  # fmt: skip
    except OSError as error:
        why = f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        why = f"{command[0]} did not end within {seconds:g} s"
    return subprocess.CompletedProcess(command, 1, "", why)


def last_line(text: str) -> str:
    """The last line of a text that is not blank; empty if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def slurm() -> Answers:
    """What Slurm answers on this machine; a text is empty if its command is missing."""
    return Answers(**{name: output(*command) for name, command in QUERIES.items()})
