"""Input files of HPL and HPCC.

Both programs read values by line number and ignore what follows them on the line (HPL 2.3,
testing/ptest/HPL_pdinfo.c; HPCC 1.5.0, src/io.c). The order of the lines is therefore the format.
Of ``hpl.jinja``, lines 13 to 31 say how HPL factors: right-looking panels, recursion by Crout, a
modified ring broadcast and a look-ahead of one panel. A tuned site changes the grid and NB first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import files
from assay.parse.hpl import THRESHOLD
from assay.workloads.sizing import Grid

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
