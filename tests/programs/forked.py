"""Runs ReFrame in a copy of a process that has imported it: the import takes half of a short run.

:func:`reframe` is for a test; as a program, this file is the process that is copied.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import shell

from assay import files
from assay.judge import curves, peaks, published
from assay.prove import counters

#: What each run imports.
MODULES = (
    "numpy",
    "reframe.frontend.cli",
    "reframe.core.launchers.mpi",
    "reframe.core.launchers.rsh",
    *(f"reframe.core.schedulers.{name}" for name in ("flux", "lsf", "oar", "pbs", "sge", "ssh")),
    "assay.gpu.bases",
    "assay.opinions.pair",
    "assay.reframe_compat.leash",
    "assay.reframe_compat.schedulers",
    "assay.reframe_compat.secrets",
    "assay.reframe_compat.warnings",
    "assay.run.linpack",
    "assay.run.osu",
    "assay.sites",
    "assay.store.running",
    "assay.store.session",
    "multiprocessing.connection",
    "xml.etree.ElementTree",
)

_server: list[subprocess.Popen[str]] = []


def reframe(
    *arguments: object, cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs ReFrame as :func:`shell.run` does; standard error is a part of `stdout`."""
    words = [str(word) for word in arguments]
    if _of_python(environment) != _of_python(os.environ):  # an import may then find other modules
        return shell.run(*words, cwd=cwd, **environment)
    if not _server:
        _server.append(
            subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=shell.ROOT,
            )
        )
        atexit.register(_end)
    server = _server[0]
    assert server.stdin and server.stdout
    with tempfile.NamedTemporaryFile("r", prefix="assay-reframe-") as output:
        order = {"words": words, "cwd": str(cwd), "output": output.name}
        print(json.dumps({**order, "environment": environment}), file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(words, code, output.read())


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


def _end() -> None:
    server = _server.pop()
    server.communicate()


def serve() -> None:
    """Carries out the orders on standard input: one line of JSON each, answered by an exit code."""
    for name in MODULES:
        importlib.import_module(name)
    counters.rows()
    curves.limits()
    anywhere = files.SUITE / "site-config/any"
    published.read_floors(files.of_all_sites(anywhere, published.FILE))
    peaks.hardware(anywhere)
    gc.freeze()  # what is never collected is never copied
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            become(order)
            gc.disable()  # a run of a test ends before it would need it
            from reframe.frontend.cli import main

            try:
                code = main()
            except SystemExit as end:
                code = end.code
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # the end of an interpreter with so many modules takes long
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(order: dict[str, Any]) -> None:
    """Makes this process what a start of the program would be."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(order["output"], os.O_WRONLY | os.O_APPEND)
    for of_process, own in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(of_process, own)
    os.close(nothing)
    os.close(output)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = order["words"]
    sys.path.remove(str(Path(__file__).parent))
    random.seed()


if __name__ == "__main__":
    serve()
