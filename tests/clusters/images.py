"""The image of this checkout, an Apptainer that starts it, and commands of this machine."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "build/assay.sif"


def run(*command, cwd=ROOT, **variables):
    """Runs a command with further variables; its standard error is a part of its output."""
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def apptainer():
    """Path of Apptainer; skips the test without it."""
    found = run("ci/apptainer.sh", "--no-build")
    if found.returncode:
        pytest.skip(found.stdout.strip())
    return Path(found.stdout.strip())


def image():
    """Path of the image; skips the test without it."""
    if not IMAGE.exists():
        pytest.skip(f"no {IMAGE.relative_to(ROOT)}: make image")
    return IMAGE
