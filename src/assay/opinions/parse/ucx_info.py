"""``ucx_info -M``: bandwidth of memory copies, which is the peak of a message in shared memory.

print_sys_info() in src/tools/info/sys_info.c prints the table in the same form in UCX 1.13 to
1.22. Its unit MB/s is 2^20 B/s (``/ UCS_MBYTE``). A copied byte counts once, although it is
read and written.
"""

from __future__ import annotations

import re

from assay.parse import Parsed
from assay.parse.reading import MIB_PER_S, first, recogniser
from assay.parse.tables import SIZE, Column, Table, begun, body

FIRST, LAST = 4096, 256 << 20

_TITLE = re.compile("# Memcpy bandwidth:")
_ROW = re.compile(r"# +(\S+) bytes: (\S+) MB/s")
# The first form is that of 1.13, the second that of later versions with -v.
_VERSION = re.compile(r"# (?:Version|Library version:) (\d\S*)")
_COLUMNS = (SIZE, Column("bandwidth", "MB/s", factor=MIB_PER_S))

recognise = recogniser(_TITLE)


def parse_ucx_info(text: str) -> Parsed:
    """The rows: ``size`` [B] and ``bandwidth`` [MB/s, 10^6 B/s], 4 KiB to 256 MiB.

    The version is known if ``-v`` was given too.

    :raises ParseError: the table is not in the text.
    """
    lines, problems = body(text)
    title, _ = begun(lines, _TITLE, (), "no table of memory copies (ucx_info -M)")
    table = Table("ucx_info -M", _COLUMNS, LAST, problems, FIRST)
    for number, line in lines[title + 1 :]:
        row = _ROW.fullmatch(line)
        if line:
            table.take((number, f"{row[1]} {row[2]}" if row else line))
    complete = table.close(text)
    version = first((line for _, line in lines), _VERSION)
    return table.parsed("ucx-info", version, complete, {})
