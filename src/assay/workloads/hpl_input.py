"""Input files of HPL and HPCC.

Both programs read values by line number and ignore what follows them on the line (HPL 2.3,
testing/ptest/HPL_pdinfo.c; HPCC 1.5.0, src/io.c). The order of the lines is therefore the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.workloads.sizing import Grid

#: Residuals above this fail (HPL's own default).
THRESHOLD = 16.0

#: Lines 11 to 31: how HPL factors. Right-looking panels, recursion by Crout, a modified ring
#: broadcast and a look-ahead of one panel; a tuned site changes the grid and NB first.
_ALGORITHM = (
    (f"{THRESHOLD}", "residual threshold"),
    ("1", "number of panel factorisations"),
    ("2", "0 left, 1 Crout, 2 right"),
    ("1", "number of recursion stops"),
    ("4", "NBMIN"),
    ("1", "number of panel divisions"),
    ("2", "NDIV"),
    ("1", "number of recursive factorisations"),
    ("1", "0 left, 1 Crout, 2 right"),
    ("1", "number of broadcasts"),
    ("1", "0 1rg, 1 1rM, 2 2rg, 3 2rM, 4 Lng, 5 LnM"),
    ("1", "number of look-ahead depths"),
    ("1", "depth"),
    ("2", "swap: 0 bin-exch, 1 long, 2 mix"),
    ("64", "swapping threshold"),
    ("0", "L1: 0 transposed, 1 not"),
    ("0", "U: 0 transposed, 1 not"),
    ("1", "equilibration: 0 no, 1 yes"),
    ("8", "memory alignment in doubles"),
)

#: The same as HPL encodes it in each row (column T/V; HPL_pdtest.c of HPL 2.3): row-major mapping,
#: depth, broadcast, recursive factorisation, NDIV, panel factorisation, NBMIN.
VARIANT = "WR11C2R4"


def hpl(orders: Sequence[int], blocks: Sequence[int], grid: Grid, device: int = 6) -> str:
    """``HPL.dat`` for every order N and block NB on one process grid.

    :param device: where HPL writes: 6 is standard output, 8 the file named on line 3.
    """
    lines = [
        ("assay: written for this run,", ""),
        ("from the memory and the cores of the partition", ""),
        ("HPL.out", "output file, for device 8"),
        (str(device), "device: 6 stdout, 7 stderr, 8 file"),
        (str(len(orders)), "number of problem sizes"),
        (" ".join(map(str, orders)), "N"),
        (str(len(blocks)), "number of block sizes"),
        (" ".join(map(str, blocks)), "NB"),
        ("0", "mapping: 0 row-, 1 column-major"),
        ("1", "number of process grids"),
        (str(grid.p), "P"),
        (str(grid.q), "Q"),
        *_ALGORITHM,
    ]
    return "".join(f"{value:<24} {meaning}".rstrip() + "\n" for value, meaning in lines)


def otherwise(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A problem if a row of HPL was factored otherwise than the input file says."""
    other = sorted({str(row["variant"]) for row in rows} - {VARIANT})
    return [f"HPL ran {other[0]} (column T/V), its input file asks for {VARIANT}"] if other else []


def hpcc(orders: Sequence[int], blocks: Sequence[int], grid: Grid) -> str:
    """``hpccinf.txt``: like ``HPL.dat``, and PTRANS gets no sizes beyond those of HPL."""
    return hpl(orders, blocks, grid, device=8) + (
        "# the rest is for PTRANS\n"
        "0                        number of additional problem sizes\n"
        "0                        values of N\n"
        "0                        number of additional block sizes\n"
        "0                        values of NB\n"
    )
