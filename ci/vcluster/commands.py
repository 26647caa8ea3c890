"""Running other programs: their words only when they fail, and then as one line."""

import subprocess

from layout import Refusal


def run(*command, given=None, check=True):
    """Runs a command and returns its standard output.

    :raises Refusal: it is not installed, or failed while `check`.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    except FileNotFoundError:
        raise Refusal(f"{words[0]} is not installed; type: ci/vcluster/packages.sh") from None
    except subprocess.TimeoutExpired:
        raise Refusal(f"{' '.join(words)} did not end within 60 s") from None
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).strip().replace("\n", "; ")
        raise Refusal(f"{' '.join(words)} ended with {done.returncode}: {said}")
    return done.stdout
