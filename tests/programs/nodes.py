"""Nodes that differ only in host name: local processes, each in its own UTS namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import shell
from bench import Bench, live_program, live_ucx
from shell import ROOT

from assay.fleet import coordinator_log

SCRIPTS = ROOT / "src" / "assay" / "fleet" / "node"

#: The words before a command that give it a host name of its own.
UNSHARE = ["unshare", "--uts"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--uts"]

#: A launcher like mpirun. It starts np processes, each on a "node", and returns a nonzero exit
#: code if any of them does.
LAUNCHER = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -np|-n) np=$2; shift 2 ;; -*) shift ;; *) break ;; esac; done
pids=
for rank in $(seq 0 $((np - 1))); do
  PMIX_RANK=$rank {unshare} sh -c 'hostname node0$((PMIX_RANK + 1)); exec "$@"' sh "$@" &
  pids="$pids $!"
done
worst=0
for pid in $pids; do wait "$pid" || worst=$?; done
exit $worst
""".format(unshare=" ".join(UNSHARE))


def need_namespaces() -> None:
    """Skips the test if this machine cannot create a UTS namespace."""
    if not shutil.which("unshare") or shell.run(*UNSHARE, "hostname", "probe").returncode:
        pytest.skip("needs a UTS namespace of its own")


#: Fails at its first test on node02, and never again.
ONCE = """#!/bin/sh
case "$*" in *tag_*) [ "$(uname -n)" = node02 ] && mkdir {mark} 2>/dev/null && {fault} ;; esac
exec {real} "$@"
"""


def machine(
    bench: Bench,
    nodes: int = 4,
    features: Sequence[str] = ("inter-node", "tcp"),
    **extras: Any,
) -> str:
    """Makes a partition of this number of "nodes", and a stack with the launcher.

    Returns the path of the real ucx_perftest.
    """
    need_namespaces()
    real = live_program("ucx_perftest")
    version = live_ucx()
    path = bench.program("live", "mpirun", LAUNCHER)
    bench.partition(
        features=list(features),
        extras={"network_device": "lo", "nodes": nodes, **extras},
    )
    bench.stack("live", ["ucx", "ucx-perftest", "iozone"], path, ucx_version=version)
    return real


class Nodes:
    """A job of one script, with one process for each node.

    `plan` adds to or replaces the defaults. Nobody waits for a node that comes, so by default the
    patience is long: how fast the nodes come depends on the machine.
    """

    def __init__(self, folder: Path, script: str, nodes: int, **plan: Any) -> None:
        self.folder, self.script = folder, script
        self.plan = {"nodes": nodes, "patience": 3600, "device": "lo", **plan}
        (folder / "plan.json").write_text(json.dumps(self.plan))
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def start(self, *ranks: int, **variables: str) -> Nodes:
        """Starts these ranks; rank 0 is node01."""
        for rank in ranks:
            command = [sys.executable, str(SCRIPTS / self.script), "plan.json"]
            self.processes[rank] = subprocess.Popen(
                [*UNSHARE, "sh", "-c", f'hostname node0{rank + 1}; exec "$@"', "sh", *command],
                cwd=self.folder,
                env={**os.environ, "PMIX_RANK": str(rank), **variables},
                stderr=subprocess.PIPE,
                text=True,
            )
        return self

    def until(self, there: Callable[[], bool]) -> None:
        """Waits until something is there, while all processes run."""
        while not there():
            ended = [process for process in self.processes.values() if process.poll() is not None]
            assert not ended, f"a node ended too early: {ended[0].communicate()[1]}"
            time.sleep(0.01)

    def lines(self) -> int:
        """Number of lines of the log so far."""
        path = self.folder / "coordinator_log.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def end(self) -> dict[int, tuple[int, str]]:
        """Exit code and stderr of each rank, once all have ended."""
        ended = {}
        try:
            for rank, process in self.processes.items():
                said = process.communicate()[1]
                ended[rank] = (process.returncode, said)
        finally:
            for process in self.processes.values():
                process.kill()
        return ended

    def coordinator_log(self) -> coordinator_log.CoordinatorLog:
        return coordinator_log.parse((self.folder / "coordinator_log.jsonl").read_text())
