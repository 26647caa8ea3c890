"""Finds the parser for a text: each parser knows lines that only its own programs print.

The parsers are the modules that have a function ``recognise``, in this package and in the package
``parse`` of each room. The family of a parser is the name of its module with hyphens: ``osu_py``
reads the family ``osu-py``, by its function ``parse_osu_py``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import NamedTuple

from assay.parse.reading import Parsed, ParseError

#: The folder of the library; packages of parsers in it, relative to it.
_LIBRARY = Path(__file__).parents[1]
_PACKAGES = ("parse", *(f"{each.parent.name}.parse" for each in _LIBRARY.glob("*/parse")))


class Parser(NamedTuple):
    """What a module of a family has; `parse` of some takes ``last_size`` (:func:`parse_output`)."""

    recognise: Callable[[str], bool]
    parse: Callable[..., Parsed]


#: All parsers by family.
PARSERS: Mapping[str, Parser] = {
    name.replace("_", "-"): Parser(module.recognise, getattr(module, f"parse_{name}"))
    for name, module in sorted(
        (found.name, import_module(f"assay.{package}.{found.name}"))
        for package in _PACKAGES
        for found in pkgutil.iter_modules([str(_LIBRARY.joinpath(*package.split(".")))])
        if found.name != "registry"
    )
    if hasattr(module, "recognise")
}


def recognise(text: str) -> str:
    """The family whose parser reads `text`, a key of :data:`PARSERS`.

    :raises ParseError: no parser knows the text, or more than one does, as in a log of several
        programs.
    """
    text = text.removeprefix("\ufeff")
    families = [family for family, parser in PARSERS.items() if parser.recognise(text)]
    if not families:
        raise ParseError("unknown program")
    if len(families) > 1:
        raise ParseError(f"output of more than one program: {', '.join(families)}")
    return families[0]


def parse_output(text: str, *, last_size: int | None = None) -> Parsed:
    """Read the output of any known program.

    :param last_size: the message size [B] at which a network program was told to stop. Without
        it, the parser cannot distinguish an output that was cut short from one that was told to
        stop early. Other programs state their settings in their own output.
    :raises ParseError: unknown program, or an error of its parser.
    """
    read = PARSERS[recognise(text)].parse
    known = {"last_size": last_size} if "last_size" in signature(read).parameters else {}
    return read(text, **known)
