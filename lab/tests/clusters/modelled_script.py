#!/usr/bin/env python3
"""Runs a script of the suite on a node, and prints its output with the numbers of a model.

modelled_script.py KIND TABLE WORD...     KIND: cores, servers; TABLE: what modelled.py wrote

The script really measures its cores, or the files on its servers. Only what it found is replaced.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

#: The quantities of a core, in the order of the table.
OF_A_CORE = ("dgemm", "copy", "latency")


def cores(said, rows):
    """Each core has what its node has; the cores of a node differ by a percent."""
    made = dict(zip(OF_A_CORE, map(float, rows[(os.uname().nodename,)])))
    for number, values in enumerate(said["cores"].values()):
        for quantity, windows in values.items():
            values[quantity] = [made[quantity] * (1 + number / 100) for _ in windows]
    # The clock is that of the host, and the size of an array follows its free memory.
    return {**said, "clock": {}, "bytes": 1 << 22}


def servers(said, rows):
    """The files on each server are as fast as the model says, in each round."""
    for server, values in said["servers"].items():
        (rate,) = rows[os.uname().nodename, server]
        for operation, rounds in values.items():
            values[operation] = [float(rate) for _ in rounds]
    return said


def main(kind, table, *command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.stdout.write(done.stdout)
        return done.returncode
    columns = {"cores": 1, "servers": 2}[kind]
    lines = [line.split() for line in Path(table).read_text().splitlines()]
    rows = {tuple(words[:columns]): words[columns:] for words in lines}
    change = {"cores": cores, "servers": servers}[kind]
    print(json.dumps(change(json.loads(done.stdout), rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
