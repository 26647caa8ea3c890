"""Runs scripts of the checkout, with programs that a test chooses."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

#: Name -> file of each site: of clusters and machines, of the emulated parts, of the example.
SITES = {
    path.parent.name: path
    for folder in ("site-config", "lab/sites", "examples")
    for path in sorted(ROOT.glob(f"{folder}/*/reframe.py"))
}


def module(path: str) -> Any:
    """A Python script of the checkout as a module, whose functions a test can call."""
    spec = importlib.util.spec_from_file_location(Path(path).stem.replace("-", "_"), ROOT / path)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # a dataclass looks for its module there
    spec.loader.exec_module(made)
    return made


def program(directory: Path, name: str, body: str = "exit 0") -> Path:
    """Writes a program for /bin/sh."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # it may be a link to the program of the machine
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def tools(directory: Path, names: str) -> Path:
    """A PATH with these programs of the machine, as far as it has them."""
    directory.mkdir()
    for name in names.split():
        if found := shutil.which(name):
            (directory / name).symlink_to(found)
    return directory


def run(
    *command: object,
    path: Path | None = None,
    cwd: Path | None = None,
    apart: bool = False,
    **variables: object,
) -> subprocess.CompletedProcess[str]:
    """Runs without a terminal, with only the programs in `path`, and without our variables.

    :param apart: keep standard error apart. Otherwise it is a part of `stdout`.
    """
    names = ("HOME", "TMPDIR", "LANG", "PIP_CERT", "ASSAY_PROGRAMS")
    keep = {k: v for k, v in os.environ.items() if k in names}
    return subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if apart else subprocess.STDOUT,
        text=True,
        check=False,
        cwd=cwd,
        env={
            **keep,
            "PATH": str(path) if path else os.environ["PATH"],
            **{k: str(v) for k, v in variables.items()},
        },
    )


#: The line of a script by which ReFrame begins a session.
BEGIN = (
    'd="${ASSAY_RESULTS:-results}/output/$ASSAY_SESSION"; mkdir -p "$d"; touch "$d/session.json"'
)
