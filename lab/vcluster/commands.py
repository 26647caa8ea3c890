"""Runs other programs, whose output is shown only if they fail. Starts daemons, and waits."""

import os
import subprocess
import time

from layout import STATE, Refusal


def run(*command, given=None, check=True, seconds=60, env=None):
    """Runs a command and returns its standard output.

    :raises Refusal: it is not installed, takes longer than `seconds`, or failed while `check`.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=given or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env=env,
        )
    except FileNotFoundError:
        raise Refusal(f"{words[0]} is not installed; type: lab/vcluster/packages.sh") from None
    except subprocess.TimeoutExpired:
        raise Refusal(f"{' '.join(words)} did not end within {seconds} s") from None
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).strip().replace("\n", "; ")
        raise Refusal(f"{' '.join(words)} ended with {done.returncode}: {said}")
    return done.stdout


def wait(works, seconds, late):
    """Waits until `works()` is true; after `seconds` a Refusal with the text of `late()`."""
    end = time.monotonic() + seconds
    while not works():
        if time.monotonic() > end:
            raise Refusal(late())
        time.sleep(0.02)


def daemon(words, log, mode="w", before=None, **variables):
    """Starts a program that outlives this one, in the foreground of nobody.

    :param log: name of the file below the state's `log` that gets what it says.
    :param before: called in the new process before it becomes the program.
    :param variables: environment variables beside the caller's.
    """
    with (STATE / "log" / log).open(mode) as file:
        return subprocess.Popen(
            [str(word) for word in words],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=before,  # noqa: PLW1509 - there are no threads here
        )
