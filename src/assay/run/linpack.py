"""HPL, alone or inside HPCC, with a matrix that fills the partition's share of the memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ConfigError

from assay.judge import Peak
from assay.parse import Parsed, Quantity, hpl
from assay.run.mpi import MpiCheck
from assay.run.site import hardware_peaks
from assay.workloads import hpl_input
from assay.workloads.hpl_input import linpack_bytes, matrix_order, process_grid
from assay.workloads.sizing import Grid, usable_ranks

#: More than any core computes in double precision [GFLOP/s]: 32 operations in a cycle at 7 GHz are
#: 224, and a core of a vector computer (SX-Aurora TSUBASA) has 307.
FASTEST_CORE = 320.0

#: Largest order of the matrix in the smoke profile on two ranks. A larger one takes more than a few
#: seconds. It grows with the root of the ranks: each has as many elements, so that the order of its
#: DGEMM stays above 1400, where no core is slower than alone for want of work.
SMOKE_ORDER = 4000
#: The same limit between nodes. The table of RandomAccess grows with the matrix, and RandomAccess
#: waits for the link.
SMOKE_ORDER_BETWEEN_NODES = 2000


class LinpackCheck(MpiCheck):
    """Problems sized from memory and cores. The solved problems must be the requested ones."""

    #: Block size NB.
    block = variable(int, value=192)

    kind = "compute"
    valid_systems = ["+intra-node", "+inter-node"]
    nodes_taken = None
    # Each rank has one core. A threaded BLAS would start a thread for every core in each rank.
    env_vars = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}

    #: Name of the input file that the program reads in its working directory.
    input_name: str

    def input_text(self, orders: Sequence[int], grid: Grid) -> str:
        """Content of the input file for these orders N."""
        raise NotImplementedError

    def ranks_on(self, cores: int) -> int:
        """The largest number of ranks with a usable process grid."""
        return usable_ranks(cores)

    @run_after("init")
    def _short(self) -> None:
        if self.profile == "smoke":
            self.time_limit = "10m"  # a limit that a queue for short jobs accepts

    @run_before("run")
    def _write_input(self) -> None:
        self._grid = grid = process_grid(self.num_tasks)
        shared = {"nb": self.block, "p": grid.p, "q": grid.q}
        self.asked = [{"n": order, **shared} for order in self.orders(grid)]
        text = self.input_text([problem["n"] for problem in self.asked], grid)
        (Path(self.stagedir) / self.input_name).write_text(text)
        self.keep_files.append(self.input_name)

    def memory(self) -> tuple[int, float]:
        """Memory of one node [B], and the share of it that a matrix may take."""
        return self.partition_extra("memory_bytes"), self.partition_extra("memory_fraction")

    def shortened(self, order: int) -> int:
        """The given order N, or the smaller one of the smoke profile.

        :raises reframe.core.exceptions.ConfigError: the smoke profile has no room for one block.
        """
        if self.profile != "smoke":
            return order
        most = SMOKE_ORDER_BETWEEN_NODES
        if not self.between_nodes:
            most = int(SMOKE_ORDER * math.sqrt(max(self.num_tasks / 2, 1)))
        block: int = self.block
        if block > most:
            why = f"block: {block} is more than the largest order of the smoke profile, {most}"
            raise ConfigError(f"{why}; take a smaller block or another profile")
        return min(order, most // block * block)

    def orders(self, grid: Grid) -> list[int]:
        """The orders N of the problems, in ascending order."""
        memory, fraction = self.memory()
        order = matrix_order(memory * self._layout.nodes, fraction, self.block, grid)
        return [self.shortened(order)]

    def payload(self, parsed: Parsed) -> float:
        """The bytes that HPL must move; programs that run with it only add to them."""
        return sum(linpack_bytes(at["n"], self._grid, self._layout) for at in self.asked)

    def too_fast(self, rate: float, cores: int) -> list[str]:
        """A problem if so many cores cannot compute at this rate [GFLOP/s]."""
        if rate <= FASTEST_CORE * cores:
            return []
        most = f"no core computes more than {FASTEST_CORE:g} GFLOP/s"
        return [f"{rate:g} GFLOP/s on {cores} cores: {most}"]

    def solved_as_asked(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """A problem if the solved matrices are not the requested ones, whatever the exit code."""
        ran = [{key: row[key] for key in ("n", "nb", "p", "q")} for row in rows]
        if ran == self.asked:
            return []
        return [f"{self._program()} solved {ran}, it was asked for {self.asked}"]


class HplCheck(LinpackCheck):
    """HPL alone: the program ``xhpl``, or another one that prints the same."""

    input_name = "HPL.dat"
    declares = {"performance": "GFLOP/s"}
    proves = {"processor": "performance"}
    #: What the program calls itself, in the words of `assay.parse.hpl`.
    reports = hpl.HOST

    def input_text(self, orders: Sequence[int], grid: Grid) -> str:
        return hpl_input.hpl(orders, [self.block], grid)

    def read(self) -> Parsed:
        return hpl.parse_hpl(self.stdout_text())

    def requested(self) -> Mapping[str, object]:
        return {"program": self.reports, "threshold": hpl.THRESHOLD}

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds a problem if other matrices were solved, or faster than any computer does."""
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        cores = self._layout.nodes * self._cores
        rate = max((float(row["performance"]) for row in parsed.rows), default=0.0)
        if self.reports == hpl.HOST:  # NVIDIA's program has algorithms of its own
            problems += self.too_fast(rate, cores)
            problems += hpl_input.otherwise(parsed.rows)
        return problems + self.solved_as_asked(parsed.rows)

    def accused(self, parsed: Parsed) -> list[str]:
        shares = self.shares_a_core(parsed) if self.reports == hpl.HOST else []
        return [*super().accused(parsed), *shares]

    def peaks(self, parsed: Parsed) -> Mapping[str, Peak]:
        return hardware_peaks(self, self.declares, "processor.fp64", self.num_tasks)

    def measure(self, parsed: Parsed) -> Mapping[str, Quantity]:
        """The performance at the largest N. The other orders are in the rows."""
        return {"performance": parsed.quantity("performance", n=self.asked[-1]["n"])}
