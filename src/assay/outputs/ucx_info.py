"""``ucx_info -M``: bandwidth of memory copies, which is the peak of a message in shared memory.

print_sys_info() in src/tools/info/sys_info.c prints the table in the same form in UCX 1.13 to
1.22. Its unit MB/s is 2^20 B/s (``/ UCS_MBYTE``). The parser converts it to MB/s of 10^6 B/s, the
unit of all bandwidths of this library. A copied byte counts once, although it is read and written.
"""

from __future__ import annotations

import re

from assay.outputs._base import Parsed, ParseError
from assay.outputs._table import SIZE, Column, Table, body, capped, units

FAMILY = "ucx-info"
PROGRAM = "ucx_info -M"
FIRST, LAST = 4096, 256 << 20

MIB_PER_S = (1 << 20) / 1e6

_TITLE = "# Memcpy bandwidth:"
_ROW = re.compile(r"# +(\S+) bytes: (\S+) MB/s")
# The first form is that of 1.13, the second that of later versions with -v.
_VERSION = re.compile(r"# (?:Version|Library version:) (\d\S*)")
_COLUMNS = (SIZE, Column("bandwidth", "MB/s"))


def recognise(text: str) -> bool:
    """Whether the text has the title of the table."""
    return any(line.rstrip() == _TITLE for line in text.split("\n"))


def parse(text: str, *, last_size: int | None = None) -> Parsed:
    """The rows: ``size`` [B] and ``bandwidth`` [MB/s, 10^6 B/s], 4 KiB to 256 MiB.

    The version is known if ``-v`` was given too.

    :param last_size: the last size [B], if the program was changed to end at another size.
    :raises ParseError: the table is not in the text.
    """
    lines, problems = body(text)
    titles = [i for i, (_, line) in enumerate(lines) if line == _TITLE]
    if not titles:
        raise ParseError("no table of memory copies (ucx_info -M)")
    table = Table(PROGRAM, _COLUMNS, LAST if last_size is None else last_size, problems)
    for number, line in lines[titles[0] + 1 :]:
        row = _ROW.fullmatch(line)
        if line:
            table.take((number, f"{row[1]} {row[2]}" if row else line))
    complete = table.close(text)
    if table.rows and table.rows[0]["size"] != FIRST:
        complete = False
        problems.append(f"the table begins at size {table.rows[0]['size']}, not {FIRST}")
    rows = tuple({**r, "bandwidth": float(r["bandwidth"]) * MIB_PER_S} for r in table.rows)
    version = next((m[1] for _, line in lines if (m := _VERSION.match(line))), None)
    return Parsed(FAMILY, PROGRAM, version, complete, rows, units(_COLUMNS), capped(problems))
