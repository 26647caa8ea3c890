"""The part of ReFrame's call that a site must know while ReFrame loads its configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.node.recorded import HIDDEN, without_user


@dataclass(frozen=True)
class Option:
    """One option of the command line, or one variable of ReFrame in the environment.

    :ivar dest: ReFrame's own name of it; for a variable that ReFrame does not read, its name.
    :ivar flag: how it was given: ``-S``, ``--mode``, ``RFM_SYSTEM``.
    :ivar value: empty for a switch.
    """

    dest: str
    flag: str
    value: str = ""

    def __str__(self) -> str:
        if not self.value:
            return self.flag
        short = self.flag.startswith("-") and not self.flag.startswith("--")
        return f"{self.flag}{' ' if short else '='}{without_user(self.value)}"


@dataclass(frozen=True)
class Invocation:
    """One call of ReFrame.

    :ivar run: ReFrame will run tests (``-r``), not list or describe them.
    :ivar system: the value of ``--system`` or ``RFM_SYSTEM``; None if neither is given.
    :ivar given: the given options, and the variables ``RFM_*`` in the environment, but for those
        over which a given option prevails.
    """

    run: bool
    system: str | None
    given: tuple[Option, ...] = ()


def of_reframe() -> Invocation | None:
    """The call that loads a site now; None if the site is not loaded by ReFrame's command.

    ReFrame keeps its parser and its parsed command line in local variables of ``main`` (4.10.4,
    ``frontend/cli.py``). Reading them there avoids a second parser, which could understand the
    command line differently (``-Rr``, ``--sys=...``).
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        names = frame.f_globals.get("__name__"), frame.f_code.co_name
        if names == ("reframe.frontend.cli", "main") and "options" in frame.f_locals:
            options, parser = frame.f_locals["options"], frame.f_locals["argparser"]
            # Without ReFrame's defaults, what is not given is None.
            given = tuple(_given(parser, parser._holder.parse_args()))
            prevail = {option.dest for option in given}
            variables = (o for o in _variables(parser, os.environ) if o.dest not in prevail)
            return Invocation(
                run=options.cmd_options.run is True,
                system=options.system if isinstance(options.system, str) else None,
                given=(*given, *variables),
            )
    return None


def _given(parser: Any, options: Any) -> Iterator[Option]:
    for action in parser._holder._actions:
        value = getattr(options, action.dest, None)
        if value is None:
            continue
        flag = action.option_strings[0]
        if action.nargs == 0 or not isinstance(value, (str, int, float, list)):
            yield Option(action.dest, flag)
        else:
            for each in value if isinstance(value, list) else [value]:
                yield Option(action.dest, flag, str(each))


def _variables(parser: Any, environment: Mapping[str, str]) -> Iterator[Option]:
    known = {
        spec[0].split()[0]: (dest, spec[0].split()[1:] or [","])
        for dest, spec in parser._option_map.items()
        if spec[0]
    }
    for name in sorted(environment):
        if name.startswith("RFM_"):
            if name not in known:
                yield Option(name, name, HIDDEN)
                continue
            dest, (delimiter,) = known[name]
            listed = parser._option_map[dest][2] == "append"
            values = environment[name].split(delimiter) if listed else [environment[name]]
            yield from (Option(dest, name, value) for value in values)
