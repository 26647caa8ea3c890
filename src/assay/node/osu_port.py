"""Runs mpi4py's port of an OSU test with arguments: ``osu_port.py FILE [NAME=NUMBER ...]``.

The ports take no arguments from the command line. Each port has one function, named like its file,
that takes arguments. This script is copied to the place where the ranks run, and needs only Python.
"""

import runpy
import sys
from pathlib import Path

port, *settings = sys.argv[1:]
arguments = {name: int(number) for name, number in (text.split("=") for text in settings)}
runpy.run_path(port)[Path(port).stem](**arguments)
