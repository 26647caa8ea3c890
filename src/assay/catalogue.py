"""The catalogue of programs, ``catalogue.yaml``: all that the suite knows about each program.

The vocabulary of stacks, the detection of programs, ``StackHas``, the stacks of Spack and of
images, and ``ci/system-stack.sh`` read it. A new program needs only a new entry.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from reframe.core.exceptions import ConfigError

from assay import files
from assay.node import IN_IMAGE

FILE = Path(__file__).with_name("catalogue.yaml")


class Version(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a program is asked for its version: extra, command and pattern.

    :ivar extra: the extra of a stack that holds the version.
    :ivar pattern: regular expression whose first group is the version.
    """

    extra: str
    command: tuple[str, ...]
    pattern: str

    def __post_init__(self) -> None:
        if _compiled("pattern", self.pattern).groups != 1:
            raise ValueError("pattern: must have one group")


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The command that prints the options of a program, the pattern of one, and what has it."""

    command: tuple[str, ...]
    pattern: str
    what: str

    def __post_init__(self) -> None:
        _compiled("pattern", self.pattern)


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program has a descr, in a line; ``catalogue.yaml`` says what the other keys mean."""

    descr: str
    executables: tuple[str, ...] = ()
    family: str = ""
    detect: bool = True
    variant_of: str = ""
    command_extra: str = ""
    version: Version | None = None
    needs: Needs | None = None
    untested: str = ""
    serial: bool = False
    spack: str = ""
    debian: str = ""
    word: str = ""

    def __post_init__(self) -> None:
        if not (self.executables or self.family or self.variant_of or self.command_extra):
            raise ValueError("executables: is missing: nothing says what is started")
        _compiled("family", self.family)

    @property
    def detected(self) -> bool:
        """Whether a name on PATH shows that the program is there."""
        return self.detect and bool(self.executables)


def _compiled(key: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{key}: is not a regular expression ({error})") from None


def load_catalogue(path: Path = FILE) -> dict[str, Program]:
    """The programs by their words.

    :raises ConfigError: an entry is not valid; the message names file, word and key.
    """
    entries = files.read_shape(path, dict[str, Program], ConfigError)
    for word, program in entries.items():
        if program.variant_of and program.variant_of not in entries:
            raise ConfigError(f"{path}: {word}: variant_of: is not a word of this file")
    return {word: msgspec.structs.replace(each, word=word) for word, each in entries.items()}


#: All programs, by the feature word of a stack.
PROGRAMS: Mapping[str, Program] = load_catalogue()

#: The feature words of stacks, with their meanings.
WORDS = {word: program.descr for word, program in PROGRAMS.items()}


def needed(executable: str) -> str:
    """The version that the suite needs of the program of a name; empty if any will do."""
    of = (p for p in PROGRAMS.values() if p.needs)
    named = (p for p in of if executable in p.executables or re.fullmatch(p.family, executable))
    return next((p.needs.what for p in named if p.needs), "")


#: Programs that report their own version, by the extra of a stack that holds it.
VERSIONS = {p.version.extra: p.version for p in PROGRAMS.values() if p.version}


def executable(word: str, extras: Mapping[str, Any]) -> str:
    """Name of the program that shows whether a stack with these extras has what a word promises.

    :raises ConfigError: the stack does not say how the program is started.
    """
    program = PROGRAMS[word]
    if program.command_extra in extras:
        words = shlex.split(extras[program.command_extra])
        return words[words[0] == IN_IMAGE]
    if program.variant_of:
        return executable(program.variant_of, extras)
    if word == "btio":
        said = extras.get("btio_built", {})
        if said.get("classes") and said.get("subtypes"):
            return btio(said["classes"][0], said["subtypes"][0])
        raise ConfigError(
            "a stack with btio needs the extra btio_built: {classes: [...], subtypes: [...]}"
        )
    if program.executables:
        return program.executables[0]
    raise ConfigError(f"a stack with {word} needs the extra {program.command_extra}")


#: Classes for which the suite runs programs of NPB, in ascending order.
NPB_CLASSES = ("S", "W", "A", "B", "C", "D", "E")


def npb(kernel: str, cls: str) -> str:
    """Name of the program of NPB for a kernel and a class."""
    return f"{kernel}.{cls}.x"


#: Classes and subtypes under which BT-IO is built, with the ending of each program's name.
BTIO_CLASSES = NPB_CLASSES
BTIO_SUBTYPES = {"simple": "mpi_io_simple", "full": "mpi_io_full", "epio": "ep_io"}


def btio(cls: str, subtype: str) -> str:
    """Name of the program of BT-IO for a class and a subtype."""
    return f"{npb('bt', cls)}.{BTIO_SUBTYPES[subtype]}"
