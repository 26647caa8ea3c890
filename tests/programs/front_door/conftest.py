"""The scripts between a clone and a run, when they fail and when they have little to do.

The scripts are the real ones, run by bash. If a test is about the failure of a program that a
script starts, or about its arguments, a small script on PATH replaces this program.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from shell import ROOT, program, tools

BASE_PROGRAMS = """
    awk bash cat chmod cmp cp dirname env find grep gzip head id ldd make mkdir mktemp mv nice
    readlink rm sed sh sha256sum sleep tail tar tee touch wc
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with the usual tools and Python, without the programs of the system stack."""
    directory = tools(tmp_path / "bin", BASE_PROGRAMS)
    program(directory, "python3", f'exec "{sys.executable}" "$@"')
    return directory


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Only the files of the front door, in a directory with a blank and an umlaut in its name."""
    copy = tmp_path / "a checkout für alle"
    shutil.copytree(ROOT / "ci", copy / "ci")
    shutil.copy(ROOT / "Makefile", copy)
    (copy / "studies").mkdir()
    shutil.copy(ROOT / "studies/tests.txt", copy / "studies")
    (copy / "src/assay").mkdir(parents=True)
    shutil.copy(ROOT / "src/assay/catalogue.yaml", copy / "src/assay")
    return copy
