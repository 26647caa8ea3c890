"""Finds the parser for a text: each parser knows lines that only its own programs print."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from assay.outputs import hpcc, hpl, iozone, netpipe, npb, osu, osu_py, ucx_perftest
from assay.outputs._base import Parsed, ParseError

#: Parsers of network programs by family; their ``parse`` takes ``last_size``.
NETWORK: Mapping[str, ModuleType] = {
    "osu": osu,
    "osu-py": osu_py,
    "netpipe": netpipe,
    "ucx-perftest": ucx_perftest,
}
#: All parsers by family: modules with ``recognise(text) -> bool`` and ``parse(text) -> Parsed``.
PARSERS: Mapping[str, ModuleType] = {
    **NETWORK,
    "hpcc": hpcc,
    "hpl": hpl,
    "npb": npb,
    "iozone": iozone,
}


def recognise(text: str) -> str:
    """The family whose parser reads `text`, a key of :data:`PARSERS`.

    :raises ParseError: no parser knows the text, or more than one does, as in a log of several
        programs.
    """
    families = [family for family, parser in PARSERS.items() if parser.recognise(text)]
    if not families:
        raise ParseError("unknown program")
    if len(families) > 1:
        raise ParseError(f"output of more than one program: {', '.join(families)}")
    return families[0]


def parse(text: str, *, last_size: int | None = None) -> Parsed:
    """Read the output of any known program.

    :param last_size: the message size [B] at which a network program was told to stop. Without
        it, the parser cannot distinguish an output that was cut short from one that was told to
        stop early. Other programs state their settings in their own output.
    :raises ParseError: unknown program, or an error of its parser.
    """
    family = recognise(text)
    if family in NETWORK:
        parsed: Parsed = NETWORK[family].parse(text, last_size=last_size)
    else:
        parsed = PARSERS[family].parse(text)
    return parsed
