"""Problems and input files of HPL and HPCC, and the bytes that a solution moves.

Both programs read values by line number and ignore what follows them on the line (HPL 2.3,
testing/ptest/HPL_pdinfo.c; HPCC 1.5.0, src/io.c). The order of the lines is therefore the format.
Of ``hpl.jinja``, lines 13 to 31 say how HPL factors: right-looking panels, recursion by Crout, a
modified ring broadcast and a look-ahead of one panel. A tuned site changes the grid and NB first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import files
from assay.parse.hpl import THRESHOLD
from assay.workloads.sizing import BYTES_PER_DOUBLE, Grid, Layout, SizingError, usable_ranks

#: How HPL factors, as it encodes it in each row (column T/V; HPL_pdtest.c of HPL 2.3): row-major
#: mapping, depth, broadcast, recursive factorisation, NDIV, panel factorisation, NBMIN.
VARIANT = "WR11C2R4"


def hpl(orders: Sequence[int], blocks: Sequence[int], grid: Grid, device: int = 6) -> str:
    """``HPL.dat`` for every order N and block NB on one process grid, or ``hpccinf.txt``.

    :param device: where HPL writes: 6 is standard output, 8 the file named on line 3. The latter is
        for HPCC, whose PTRANS gets no sizes beyond those of HPL.
    """
    template = files.templates(Path(__file__).parent).get_template("hpl.jinja")
    return template.render(
        orders=orders, blocks=blocks, grid=grid, device=device, threshold=THRESHOLD
    )


def otherwise(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A problem if a row of HPL was factored otherwise than the input file says."""
    other = sorted({str(row["variant"]) for row in rows} - {VARIANT})
    return [f"HPL ran {other[0]} (column T/V), its input file asks for {VARIANT}"] if other else []


def process_grid(ranks: int) -> Grid:
    """The grid closest to a square that uses exactly `ranks` ranks.

    A prime number of ranks above 3 leaves only the grid 1 x ranks, where every panel broadcast
    crosses the whole row. The function refuses it instead of choosing it silently.

    :raises SizingError: `ranks` is below 1, or a prime above 3.
    """
    if ranks < 1:
        raise SizingError(f"{ranks} ranks: at least 1 is needed")
    p = next(d for d in range(math.isqrt(ranks), 0, -1) if ranks % d == 0)
    if p == 1 and ranks > 3:
        near = usable_ranks(ranks)
        raise SizingError(
            f"{ranks} ranks are a prime number: the only process grid is 1 x {ranks}; "
            f"use {near} ranks ({process_grid(near).p} x {process_grid(near).q})"
        )
    return Grid(p, ranks // p)


def matrix_order(memory_bytes: int, fraction: float, block: int, grid: Grid) -> int:
    """Order N of a matrix of doubles that fills `fraction` of the memory.

    :param memory_bytes: memory of all nodes together [B].
    :param fraction: share of it for the matrix, above 0 and at most 0.9.
    :param block: NB; N is a multiple of NB * lcm(P, Q), so that every rank has whole blocks.
    :raises SizingError: the fraction is out of range, or not even one block fits.
    """
    if not 0 < fraction <= 0.9:
        raise SizingError(
            f"memory fraction {fraction}: must be above 0 and at most 0.9, or the node swaps"
        )
    step = block * math.lcm(grid.p, grid.q)
    largest = math.isqrt(int(memory_bytes * fraction / BYTES_PER_DOUBLE))
    if largest < step:
        raise SizingError(
            f"{fraction:.0%} of {memory_bytes} B hold a matrix of order {largest}, less than one "
            f"block of {step}: use a smaller NB or a larger share of the memory"
        )
    return largest // step * step


def study_orders(one_node: int, nodes: int, block: int) -> list[int]:
    """Orders N of a study over the number of nodes, ascending, each a multiple of NB.

    Every number of nodes gets the same orders, all of which one node can hold, so that their times
    can be compared. More nodes also get orders that only they can hold: their memory grows with P,
    and N grows with the square root of P.
    """
    factors = [0.25, 0.5, 1.0] + [float(f) for f in (2, 4, 8) if f * f <= nodes]
    orders = (int(one_node * factor) // block * block for factor in factors)
    return list(dict.fromkeys(order for order in orders if order))


def linpack_bytes(order: int, grid: Grid, layout: Layout) -> float:
    """Bytes over the link of the node that needs the fewest, for one matrix of order N.

    A rank updates its part of the trailing matrix with the panels of its row of the grid and with
    the rows U of its column. Summed over the steps, each of the two is N^2 / 2 doubles. The part
    that other nodes own must come over the link. Ranks fill the grid row by row (mapping 0), and
    they fill the nodes in blocks. Only half of the bytes are counted, because the blocks are not
    distributed evenly.
    """
    least = float("inf")
    for first in range(0, layout.ranks, layout.per_node):
        ranks = range(first, first + layout.per_node)
        in_row, in_column = Counter(r // grid.q for r in ranks), Counter(r % grid.q for r in ranks)
        foreign = sum(grid.q - own for own in in_row.values())
        foreign += sum(grid.p - own for own in in_column.values())
        least = min(least, 4 * order**2 * foreign / grid.ranks)
    return least / 2
