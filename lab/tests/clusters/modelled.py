"""Benchmarks on an emulated cluster that print the numbers of a model instead of their own.

Each real program runs where it is asked to, and its bytes, files and logs are real. What it prints
is what it would measure on nodes that have nothing but their limits: those that the kernel was told
by `vcluster`, read from tc, the relays of packets and the control groups. Four nodes share the
cores of one host, so their own rates depend on all that the host does.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import sys
from pathlib import Path

#: What a node without limits has: a disk [KiB/s], a core [GFLOP/s], its memory [GB/s, ns].
DISK, DGEMM, COPY, LATENCY = 1_000_000, 40, 8, 100

#: Size of a write to a file on a server [KiB].
BLOCK = 128

#: Time of a message besides what holds its packets [us].
OVERHEAD = 40

#: The client of a pair. Its first word is the address of the server.
PERFTEST = """#!/bin/sh
case "$*" in *tag_*) ;; *) exec {real} "$@" ;; esac
said=$(mktemp)
{real} "$@" >"$said"
rc=$?
awk -v node="$(uname -n)" -v server="$1" '
FNR == NR {{ if ($1 == node && $2 == server) {{ rate = $3; time = $4 }} next }}
rate && NF == 8 && $1 ~ /^[0-9]+$/ {{
    all = 1e6 / time
    $0 = sprintf("  %d %s %s %s %s %s %.0f %.0f", $1, time, time, time, rate, rate, all, all)
}}
{{ print }}' {table} "$said"
rm "$said"
exit $rc
"""

#: IOzone, and the row of a file of 64 MiB.
IOZONE = """#!/bin/sh
said=$(mktemp)
{real} "$@" >"$said"
rc=$?
awk -v node="$(uname -n)" '
FNR == NR {{ if ($1 == node) rate = $2; next }}
rate && NF == 6 && $1 == 65536 {{  # the widths of the columns are those of its version
    made = ""; n = 0
    for (left = $0; match(left, / *[0-9]+/); left = substr(left, RLENGTH + 1))
        made = made sprintf("%" RLENGTH "d", n++ < 2 ? substr(left, 1, RLENGTH) : rate)
    $0 = made
}}
{{ print }}' {table} "$said"
rm "$said"
exit $rc
"""

#: Stands for the shell that starts a script of the suite on a node.
SHELL = """#!/bin/sh
case "$*" in
*/node/cores.py*) exec {python} {this} cores {folder}/cores.table /bin/sh "$@" ;;
*/node/servers.py*) exec {python} {this} servers {folder}/servers.table /bin/sh "$@" ;;
esac
exec /bin/sh "$@"
"""


class Model:
    """The programs, in a folder that is to be the first on PATH; see :meth:`path`.

    :ivar memory: node -> share of the rate of its memory that a co-runner leaves.
    :ivar sharing: number of pairs that send over the trunk at the same time.
    """

    def __init__(self, cluster):
        self.cluster = cluster
        self.folder = cluster.state / "home" / "modelled"
        self.folder.mkdir(exist_ok=True)
        self.memory, self.sharing = {}, 1
        self._nodes, self._relays = [], {}
        scripts = {"ucx_perftest": PERFTEST, "iozone": IOZONE, "sh": SHELL}
        for name, script in scripts.items():
            words = {
                "real": shutil.which(name) or f"no-{name}",
                "table": self.folder / f"{name}.table",
                "python": sys.executable,
                "this": Path(__file__).with_name("modelled_script.py").resolve(),
                "folder": self.folder,
            }
            quoted = {key: shlex.quote(str(word)) for key, word in words.items()}
            program = self.folder / name
            program.write_text(script.format(**quoted))
            program.chmod(0o755)

    def path(self):
        """Reads the limits of the cluster as they are now; returns the PATH of its programs."""
        self._nodes = [name for name in self.cluster.states() if name != "login"]
        self._relays = {node: self.cluster.held(node) for node in self._nodes}
        self._write("ucx_perftest", self._pairs())
        self._write("iozone", {node: [self._disk(node)] for node in self._nodes})
        self._write("cores", {node: self._core(node) for node in self._nodes})
        self._write("servers", self._servers())
        return f"{self.folder}:{os.environ['PATH']}"

    def _write(self, name, rows):
        table = self.folder / f"{name}.table"
        lines = [" ".join(map(str, [key, *values])) for key, values in rows.items()]
        table.write_text("\n".join([*lines, ""]))

    def _pairs(self):
        """Node and address of another one -> rate between them [MiB/s] and time of a message."""
        addresses, nodes = self.cluster.addresses(), self._nodes
        rates = {node: self.cluster.rate(node) for node in nodes}
        asked_for = json.loads((self.cluster.state / "cluster.json").read_text())
        trunk = self.cluster.trunk() if asked_for["switches"] == 2 else None
        found = {}
        for one, other in itertools.permutations(nodes, 2):
            rate = min(rates[one], rates[other])
            # The first half of the nodes is on the first switch.
            if trunk and len({nodes.index(node) < len(nodes) // 2 for node in (one, other)}) == 2:
                rate = min(rate, trunk / self.sharing)
            time = OVERHEAD + self._there_and_back(one, other) / 2
            found[f"{one} {addresses[other]}"] = [f"{rate / 8 / 2**20:.2f}", f"{time:.3f}"]
        return found

    def _there_and_back(self, one, other):
        """For how long the relays hold a packet and its answer [us]."""
        return self._held(one, other) + self._held(other, one)

    def _held(self, node, sender):
        """For how long packets of a sender are held at a node [us], as its relays were told."""
        link = json.loads((self.cluster.state / "run" / f"link.{node}").read_text())
        wanted = link["peers"].get(sender, link["delay"])
        assert not wanted or wanted in self._relays[node]
        return wanted

    def _disk(self, node):
        """What a node writes and reads [KiB/s]. No two disks are equal."""
        limits = [number / 1024 for number in self.cluster.disk_limits(node)]
        return int(min([DISK, *limits]) * (1 + self._nodes.index(node) / 100))

    def _core(self, node):
        """What a core of a node computes [GFLOP/s] and copies [GB/s], and its latency [ns]."""
        share = self.memory.get(node, 1)
        dgemm = DGEMM * min(1, self.cluster.share_of_a_core(node) or 1)
        return [dgemm, COPY * share, LATENCY / share]

    def _servers(self):
        """Node and server -> the rate of the server's files on that node [KiB/s]."""
        found = {}
        for node, server in itertools.product(self._nodes, repeat=2):
            wait = 0 if node == server else self._there_and_back(node, server) / 1e6
            found[f"{node} {server}"] = [round(BLOCK / (BLOCK / self._disk(server) + wait))]
        return found
