"""The collectives of ``collectives.c`` on a simulated cluster, with and without a slow link.

SimGrid (https://simgrid.org, Debian package ``libsimgrid-dev``) runs the real program. Every rank
computes; only the time of the network is calculated. The result is the same in every run.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

SOURCE = Path(__file__).with_name("collectives.c")

#: A flow gets the rate that the links on its way leave free, and no protocol slows it down. The
#: default model is fitted to one cluster of Gigabit Ethernet: it gives 4 us where the platform
#: states 2 us.
MODEL = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "smpi/bw-factor:1",
    "smpi/lat-factor:1",
    "smpi/simulate-computation:no",
    "smpi/coll-selector:ompi",
)

Collective = tuple[str, int]


@dataclass(frozen=True)
class Cluster:
    """Hosts around one switch that is never the bottleneck, each with a link of its own.

    :ivar rate: of each link and direction [bytes/s].
    :ivar latency: of each link [s]; a path has two.
    """

    hosts: int
    rate: float = 12.5e9
    latency: float = 1e-6

    def platform(self, slow_host: int | None = None, left: float = 1.0) -> str:
        """The platform file, with the link of one host at `left` of its rate."""
        lines = [
            "<?xml version='1.0'?>",
            '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
            '<platform version="4.1">',
            '<zone id="cluster" routing="Full">',
        ]
        lines += [f'<host id="node{i}" speed="1Gf"/>' for i in range(self.hosts)]
        for i in range(self.hosts):
            rate = self.rate * (left if i == slow_host else 1)
            lines.append(
                f'<link id="link{i}" bandwidth={quoteattr(f"{rate}Bps")} '
                f'latency={quoteattr(f"{self.latency}s")} sharing_policy="SPLITDUPLEX"/>'
            )
        lines += [
            f'<route src="node{a}" dst="node{b}" symmetrical="NO">'
            f'<link_ctn id="link{a}" direction="UP"/><link_ctn id="link{b}" direction="DOWN"/>'
            "</route>"
            for a in range(self.hosts)
            for b in range(self.hosts)
            if a != b
        ]
        return "\n".join([*lines, "</zone>", "</platform>", ""])


def missing() -> str:
    """The reason why no simulation is possible here; empty if it is possible."""
    absent = [name for name in ("smpicc", "smpirun") if shutil.which(name) is None]
    return f"no {' and no '.join(absent)}: apt-get install libsimgrid-dev" if absent else ""


def build(folder: Path) -> Path:
    """Compiles the program for the simulator.

    :raises subprocess.CalledProcessError: the compiler objects; its output is in `stderr`.
    """
    program = folder / "collectives"
    command = ["smpicc", "-O2", "-Wall", "-Wextra", "-Werror", str(SOURCE), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def run(
    program: Path, cluster: Cluster, slow_host: int | None = None, left: float = 1.0
) -> dict[Collective, float]:
    """Microseconds of each collective (name, bytes), one rank on each host."""
    folder = program.parent
    platform, hosts = folder / "platform.xml", folder / "hosts"
    platform.write_text(cluster.platform(slow_host, left), encoding="utf-8")
    hosts.write_text("".join(f"node{i}\n" for i in range(cluster.hosts)), encoding="utf-8")
    command = ["smpirun", "-np", str(cluster.hosts), "-platform", str(platform)]
    command += [
        "-hostfile",
        str(hosts),
        *(f"--cfg={key}" for key in MODEL),
        "--log=root.thres:error",
    ]
    done = subprocess.run(
        [*command, str(program)], check=True, capture_output=True, text=True, timeout=120
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    return {(name, int(size)): float(us) for name, size, us in rows}
