"""Runs a port of an OSU test of mpi4py with arguments: ``osu_port.py FILE [NAME=NUMBER ...]``.

The ports take none from the command line; their one function, named like the file, does. Copied to
where the ranks run, and needs nothing but Python.
"""

import runpy
import sys
from pathlib import Path

port, *settings = sys.argv[1:]
arguments = {name: int(number) for name, number in (text.split("=") for text in settings)}
runpy.run_path(port)[Path(port).stem](**arguments)
