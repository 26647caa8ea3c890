"""The part of ReFrame's call that a site must know while ReFrame loads its configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Invocation:
    """One call of ReFrame.

    :ivar run: ReFrame will run tests (``-r``), not list or describe them.
    :ivar system: the value of ``--system`` on the command line; None if it is not given.
    :ivar off: the given options that switch checks off.
    :ivar narrowed: the given options that select some of the cases, with their values.
    :ivar paths: the folders and files of tests (``-c``).
    """

    run: bool
    system: str | None
    off: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()


#: Attribute of ReFrame's parsed command line -> option that switches checks off.
_SWITCHES = {
    "skip_sanity_check": "--skip-sanity-check",
    "skip_performance_check": "--skip-performance-check",
    "hooks": "--disable-hook",
}

#: Attribute of ReFrame's parsed command line -> option that selects some of the cases, or other
#: cases than those of the suite.
_NARROWING = {
    "names": "-n",
    "exclude_names": "-x",
    "tags": "-t",
    "exclude_tags": "-T",
    "filter_expr": "-E",
    "maintainers": "--maintainer",
    "cpu_only": "--cpu-only",
    "gpu_only": "--gpu-only",
    "prgenv": "-p",
    "failed": "--failed",
    "restore_session": "--restore-session",
    "distribute": "--distribute",
    "repeat": "--repeat",
    "parameterize": "-P",
}


#: Variables of tests (``-S``) that decide what runs, where, and what is measured. The run is then
#: another one than that which the site promises.
_DECIDING = frozenset(
    [
        *("env_vars", "executable", "executable_opts", "prerun_cmds", "postrun_cmds", "modules"),
        *("num_tasks", "num_tasks_per_node", "num_cpus_per_task", "parallel", "sourcesdir"),
        *("declares", "kind", "measures_anew", "valid_systems", "valid_prog_environs"),
    ]
)


def of_reframe() -> Invocation | None:
    """The call that loads a site now; None if the site is not loaded by ReFrame's command.

    ReFrame keeps its parsed command line in a local variable of ``main`` (4.10.4,
    ``frontend/cli.py``). Reading it there avoids a second parser, which could understand the
    command line differently (``-Rr``, ``--sys=...``).
    """
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        names = frame.f_globals.get("__name__"), frame.f_code.co_name
        if names == ("reframe.frontend.cli", "main") and "options" in frame.f_locals:
            given = frame.f_locals["options"].cmd_options
            system = given.system if isinstance(given.system, str) else None
            # For an option that is not given, ReFrame has an object that reads its configuration.
            off = [
                option
                for name, option in _SWITCHES.items()
                if getattr(given, name, None) is True
                or (isinstance(getattr(given, name, None), list) and getattr(given, name))
            ]
            paths = given.checkpath if isinstance(given.checkpath, list) else []
            return Invocation(
                run=given.run is True,
                system=system,
                off=tuple(off),
                narrowed=tuple(_narrowed(given)),
                paths=tuple(map(Path, paths)),
            )
    return None


def _narrowed(given: Any) -> Iterator[str]:
    for name, option in _NARROWING.items():
        value = getattr(given, name, None)
        if value is True:
            yield option
        elif isinstance(value, str) and value:
            yield f"{option} {value}"
        elif isinstance(value, list):
            # The default of -p is a pattern that matches all.
            yield from (f"{option} {each}" for each in value if each != ".*")
    for said in given.vars if isinstance(getattr(given, "vars", None), list) else ():
        if said.partition("=")[0].rpartition(".")[2] in _DECIDING:
            yield f"-S {said}"
    if isinstance(given.system, str) and ":" in given.system:
        yield f"--system={given.system}"
    if isinstance(given.mode, str) and given.mode.startswith("paper-"):
        yield f"--mode={given.mode}"
