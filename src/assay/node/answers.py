"""What the kernel and programs answer, each within a time limit, as they may hang.

A script of a node imports this file from its folder, the suite from its package.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
from subprocess import DEVNULL, PIPE, STDOUT

#: How long a program, or a file system, may take to answer [s].
LIMIT = 20

#: Program or directory that did not answer -> description in words. Each is asked only once.
hung = {}


def read(path: str) -> "str | None":
    """Content of a small file without its line end; None if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def bounded(command: list, seconds: float = 0) -> tuple:
    """Exit code and output of a command; returns in time even if it hangs in the kernel.

    Raises OSError if there is no such program. A program that did not end is noted in
    :data:`hung`. Its exit code is None, in this call and in every later one.
    """
    if command[0] in hung:
        return None, b""
    seconds = seconds or LIMIT
    process = subprocess.Popen(
        command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    try:
        said = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        hung[command[0]] = "{} did not end within {:g} s".format(" ".join(command), seconds)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()  # do not wait for the process
        return None, b""
    return process.returncode, said


def within(function: object) -> object:
    """Call a function in a process that may hang in the kernel; returns its value.

    Raises TimeoutError if the function takes longer than :data:`LIMIT`, and OSError if the function
    raised it.
    """
    source, sink = multiprocessing.Pipe(duplex=False)
    pid = os.fork()  # a Process of multiprocessing would be waited for at the end
    if pid == 0:
        try:
            try:
                sink.send((function(), None))
            except OSError as error:
                sink.send((None, (error.errno, error.strerror)))
        finally:
            os._exit(0)
    sink.close()
    with source:
        if not source.poll(LIMIT):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
            raise TimeoutError("did not answer within {:g} s".format(LIMIT))
        value, failure = source.recv()
    os.waitpid(pid, 0)
    if failure:
        raise OSError(*failure)
    return value


def output(command, lines=40):
    """First lines that a command prints; None if it is missing, fails or hangs."""
    try:
        code, said = bounded(command)
    except OSError:
        return None
    return None if code != 0 else "\n".join(said.decode(errors="replace").splitlines()[:lines])
