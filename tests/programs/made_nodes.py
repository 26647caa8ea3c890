"""Nodes with made network devices, and ranks that print recorded outputs, for runs between nodes.

The scripts of the job are the real ones: they read the host name, the processors and the variables
of each rank. Made are the host names (each in a UTS namespace), the files of the kernel about
devices, and the program: each rank says what Open MPI and UCX said in a recorded run, moves the
counters of its node, and rank 0 prints a table that the test chose.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import OF_NOW, Bench, Recorded
from nodes import UNSHARE, need_namespaces

#: The rank of this run that is not the first one says which pml it chose, and no settings.
RECORDED, RANK_OF_IT = Recorded.load("osu-latency-tcp"), "20796"

#: Names of the nodes: without their domains they are this machine, which has all of them.
HERE = os.uname().nodename
NODES = [f"{HERE}.node{number}" for number in range(1, 5)]

#: mpirun. `bind` is the command that binds a rank, the one with number $place on its node.
LAUNCHER = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -np) np=$2; shift 2 ;; -x) shift 2 ;; *) break ;; esac; done
[ ! -e link-witness.sh ] || sed -i 's|/sys/class|{made}/$host/class|' link-witness.sh
pids= each={per_node}
for rank in $(seq 0 $((np - 1))); do
  place=$((rank % each))
  node={here}.node$((rank / each + 1))
  MADE_RANK=$rank MADE_SIZE=$np MADE_PLACE=$place ASSAY_SYSFS={made}/$node \\
    {unshare} sh -c 'hostname "$0"; exec "$@"' "$node" {bind} "$@" &
  pids="$pids $!"
done
worst=0
for pid in $pids; do wait "$pid" || worst=$?; done
exit $worst
"""

#: What a run moves over each device that UCX was told to use [B].
ASKED = """echo "$UCX_NET_DEVICES" | tr , '\\n' | sed 's/:1$/ 1000000000000/'"""

#: One rank. `lanes` is a shell command that prints the lanes to its peers, `table` one that prints
#: what rank 0 prints. UCX and rank 0 of Open MPI repeat the variables that they read.
RANK = """
host=$(uname -n)
own() {{ sed "s/\\[vm:[0-9]*/[$host:$$/" "$1"; }}
own {made}/selected.err >&2
if [ "$MADE_RANK" = 0 ]; then
  env | sed -n "s/^OMPI_MCA_\\(.*\\)/[$host:$$] \\1 (environment)/p" >&2
fi
read_by_ucx=$(env | grep ^UCX_ | tr '\\n' ' ')
lanes=$({lanes})
# UCX names its host without the domain.
host=${{host%%.*}}
own {made}/ucx.log | sed "s|LANES|$lanes|; s|VARIABLES|$read_by_ucx|" >"ucx.$host.$$.log"
host=$(uname -n)
[ "$MADE_PLACE" != 0 ] || {{ {moved}; }} | while read -r device more; do
  for counter in {made}/$host/class/infiniband/$device/ports/1/counters/*; do
    [ -e "$counter" ] || continue
    read -r value <"$counter"
    # Another rank of the node may read it at this moment.
    echo $((value + more / 8)) >{made}/moving.$$ && mv {made}/moving.$$ "$counter"
  done
done
[ "$MADE_RANK" != 0 ] || {{ {table}; }}
"""


def scaled(text: str, factor: float, first: int = 0) -> str:
    """An output of OSU with the values of all sizes times a factor, from the `first` size on [B].

    The bandwidth of ``osu_mbw_mr`` follows from its rate.
    """
    lines = []
    for line in text.splitlines():
        size, *values = line.split() or [""]
        if size.isdigit() and int(size) >= first:
            numbers = [float(values[-1]) * factor]
            if len(values) > 1:
                numbers.insert(0, numbers[0] * int(size) / 1e6)
            line = f"{size:<10}{''.join(f'{number:>18.2f}' for number in numbers)}"  # noqa: PLW2901
        lines.append(f"{line}\n")
    return "".join(lines)


class MadeNodes:
    """Nodes for the stacks of a bench.

    :param per_node: ranks on each node; a shell word, which may use ``$np``, the ranks of all.
    :param devices: device of a network (`mlx5_0`) -> the processors near it. The devices are those
        of InfiniBand, and port 1 of each counts what it moved.
    """

    def __init__(
        self, bench: Bench, nodes: int, per_node: str, devices: Mapping[str, str] | None = None
    ) -> None:
        need_namespaces()
        self.bench, self.per_node, self.devices = bench, per_node, devices or {}
        self.names, self.made = NODES[:nodes], bench.folder / "made"
        self.made.mkdir()
        lines = RECORDED.stderr.splitlines(keepends=True)
        own = "".join(line for line in lines if f"[vm:{RANK_OF_IT}]" in line)
        (self.made / "selected.err").write_text(own)
        log = RECORDED.files[f"ucx.vm.{RANK_OF_IT}.log"].replace("tag(tcp/lo)", "tag(LANES)")
        before, _, _ = log.partition("UCX_TLS=")
        (self.made / "ucx.log").write_text(
            f"{before}VARIABLES\n{log[log.index(chr(10), len(before)) + 1 :]}"
        )

    def stack(  # noqa: PLR0913
        self,
        name: str,
        features: Sequence[str],
        programs: Sequence[str],
        table: str,
        *,
        lanes: str = "echo posix/memory",
        bind: str = "env",
        moved: str = ASKED,
        **extras: Any,
    ) -> None:
        """A stack with its own launcher and programs.

        :param table: shell command of rank 0; it knows MADE_SIZE, the number of ranks, $0, and
            the function `of_now`.
        :param lanes: shell command of each rank; it knows MADE_PLACE, its number on its node.
        :param bind: command before each rank; the shell variable `place` is its number.
        :param moved: shell command that prints device and bytes, which a run adds to its counters
            on each node [B].
        """
        folder = self.made / name
        for node in self.names if self.devices else ():
            self._kernel(folder / node)
        folder.mkdir(exist_ok=True)
        for file in ("selected.err", "ucx.log"):
            (folder / file).symlink_to(self.made / file)
        words = {"made": shlex.quote(str(folder)), "lanes": lanes, "table": table, "moved": moved}
        for program in programs:
            self.bench.program(name, program, f"#!/bin/sh{OF_NOW}{RANK.format(**words)}")
        launcher = LAUNCHER.format(
            **words, here=HERE, per_node=self.per_node, unshare=" ".join(UNSHARE), bind=bind
        )
        path = self.bench.program(name, "mpirun", launcher)
        self.bench.stack(name, list(features), path, ucx_version="1.13.1", **extras)
        if self.devices:
            # The job script itself asks on its node whether the devices have a place.
            variable = ["ASSAY_SYSFS", str(folder / self.names[0])]
            self.bench.environments[-1]["env_vars"].append(variable)

    def _kernel(self, root: Path) -> None:
        """The files of the kernel of one node."""
        for number, (device, cpus) in enumerate(self.devices.items()):
            folder = root / "class" / "infiniband" / device
            (folder / "device").mkdir(parents=True)
            (folder / "device" / "numa_node").write_text(f"{number}\n")
            (folder / "device" / "local_cpulist").write_text(f"{cpus}\n")
            counters = folder / "ports" / "1" / "counters"
            counters.mkdir(parents=True)
            for name in ("port_rcv_data", "port_xmit_data"):  # in words of 4 B
                (counters / name).write_text("0\n")

    def kernel(self, stack: str, pattern: str) -> list[Path]:
        """Files of the kernel of all nodes of a stack, for a test that changes them."""
        found = sorted((self.made / stack).glob(f"*/class/infiniband/{pattern}"))
        assert found, pattern
        return found
