"""How a call of ReFrame differs from the plan of its site: what it selects, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay import files
from assay.reframe_compat.command import Invocation, Option

_OPTIONS = files.own(__file__, dict[str, frozenset[str]])
HARMLESS, SELECTING, OFF, STRICTER, NAMING = (
    _OPTIONS[kind] for kind in ("harmless", "selecting", "off", "stricter", "naming")
)


@dataclass(frozen=True)
class Call:
    """How a call of ReFrame differs from the plan of its site.

    :ivar selected: those that select some of the cases.
    :ivar changed: those that may change what is measured.
    :ivar other_cases: one of the latter may also change which cases there are.
    """

    given: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    other_cases: bool = False


def of_call(
    call: Invocation, site_file: Path, suite: Path, profiles: Sequence[str], retries: int
) -> Call:
    """Compares a call of ReFrame with the plan of a site.

    :param profiles: the modes that run the whole suite.
    :param retries: how often these modes launch a case again.
    """
    mode = next((o.value for o in call.given if o.dest == "mode"), None)
    selected, changed, variables = [], [], False
    for option in call.given:
        said = str(option)
        if option.dest in SELECTING or (option.dest == "system" and ":" in option.value):
            selected.append(said)
        elif option.dest == "checkpath":
            selected += [] if Path(option.value).resolve() == suite.resolve() else [said]
        elif option.dest == "mode":
            selected += [] if option.value in profiles else [said]
        elif option.dest == "config_files":
            changed += [] if Path(option.value).resolve() == site_file.resolve() else [said]
        elif option.dest == "max_retries":
            changed += [said] if mode and int(option.value) < retries else []
        elif option.dest == "vars" and not _stricter(option, mode or "full"):
            changed.append(said)
            variables = True
        elif option.dest == "job_options":
            changed += [] if option.value.partition("=")[0].lstrip("-") in NAMING else [said]
        elif option.dest not in {*HARMLESS, *OFF, "vars"}:
            changed.append(said)
    return Call(tuple(map(str, call.given)), tuple(selected), tuple(changed), variables)


def _stricter(option: Option, mode: str) -> bool:
    name, _, value = option.value.partition("=")
    name = name.rpartition(".")[2]
    # A calibration is red by itself.
    return name in STRICTER or (name, value) == ("profile", mode) or name == "purpose"
