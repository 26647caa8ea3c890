"""The plan of a run, and how what was found differs from it.

The plan is what the site, its stacks and the tests ask for. A line about a difference has one of
three classes:

- :class:`Note`: it changes only what is printed, or how a program crashes. It is stated.
- :class:`Doubt`: it may change what is measured. It is stated, and the run is PARTIAL.
- any other text: it contradicts what the case asks for. The case fails.

What the machine itself owns (:class:`Machine`) is no difference. It is recorded, compared between
the nodes, and compared with what the references were calibrated under.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay import files
from assay.node.recorded import HIDDEN


class Note(str):
    """A difference that does not change what is measured, in one line."""

    __slots__ = ()


class Doubt(str):
    """A difference that may change what is measured, in one line."""

    __slots__ = ()


#: Kind of settings -> their names, or beginnings of them; ``settings.yaml`` explains each kind.
SETTINGS = files.own(__file__, dict[str, tuple[str, ...]], "settings.yaml")
SYSTEM, PRINTED, SEARCH = (SETTINGS[kind] for kind in ("system", "printed", "search"))


@dataclass(frozen=True)
class Machine:
    """What belongs to the machine that is accepted, and not to the person who starts the run.

    :ivar roots: directories; a setting in a file below one of them is the machine's.
    :ivar variables: what modules and the configuration of the site have set.
    """

    roots: tuple[str, ...] = ("/etc", "/usr/etc", *SYSTEM)
    variables: Mapping[str, str] = field(default_factory=dict)

    def owns(self, where: str) -> bool:
        """Whether a place ``file:line`` is in a file of the machine."""
        path = posixpath.normpath(where.rpartition(":")[0])
        inside = tuple(f"{root.rstrip('/')}/" for root in self.roots)
        return path in self.roots or path.startswith(inside)

    def variable(self, name: str, value: str) -> list[str]:
        """What to say of a variable that nobody requested; nothing if it is the machine's."""
        if name in SEARCH or self.variables.get(name) == value:
            return []
        shown = f"{name} (value not recorded)" if value == HIDDEN else f"{name}={value}"
        said = f"{shown} was set outside of the test"
        return [_classed(name, said, "unset it, or put it into the stack's env_vars")]

    def setting(self, where: str, name: str, value: str) -> list[str]:
        """What to say of a setting in a file; nothing if it is the machine's."""
        if self.owns(where):
            return []
        variable = name if name.isupper() else f"OMPI_MCA_{name}"
        said = f"{name} is set to {value} by {where}, which is no file of the machine,"
        mend = f"remove it there, or put {variable} into the stack's env_vars"
        return [_classed(variable, said, mend)]


def _classed(variable: str, said: str, mend: str) -> str:
    """A line about a setting that nobody requested, in its class."""
    if variable.startswith(PRINTED) or any(word in variable for word in SETTINGS["printed_by_mpi"]):
        return Note(f"{said.removesuffix(',')}; it changes no measurement")
    if variable in SETTINGS["choosing"]:
        return f"{said} and chooses another transport: {mend}"
    return Doubt(f"{said} and may change what is measured: {mend}")


def digest(settings: Mapping[str, str]) -> str:
    """One hash of the settings of a machine, without the numbers of their lines."""
    lines = sorted(f"{where.rpartition(':')[0]} {said}" for where, said in settings.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def within(where: str, line: str) -> str:
    """The line, with the place that it is about; a doubt or a note stays as it is."""
    return line if isinstance(line, (Doubt, Note)) else f"{where}: {line}"


def sorted_out(lines: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Problems, doubts and notes, each line once."""
    once = list(dict.fromkeys(lines))
    return (
        [line for line in once if not isinstance(line, (Doubt, Note))],
        [line for line in once if isinstance(line, Doubt)],
        [line for line in once if isinstance(line, Note)],
    )
