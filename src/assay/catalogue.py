"""The catalogue of programs, ``catalogue.yaml``: all that the suite knows about each program.

The vocabulary of stacks, the detection of programs, ``StackHas``, the stacks of Spack and of
images, and ``ci/system-stack.sh`` read it. A new program needs only a new entry.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError

from assay import files

FILE = Path(__file__).with_name("catalogue.yaml")

#: A program that is on PATH if the stack is an image. It starts any command inside the image.
IN_IMAGE = "in-image"


@dataclass(frozen=True)
class Version:
    """How a program is asked for its version.

    :ivar extra: the extra of a stack that holds the version.
    :ivar command: the command that prints the version, among other things.
    :ivar pattern: regular expression whose first group is the version.
    """

    extra: str
    command: tuple[str, ...]
    pattern: str


@dataclass(frozen=True)
class Program:
    """One entry; ``catalogue.yaml`` says what the keys mean."""

    word: str
    descr: str
    executables: tuple[str, ...] = ()
    family: str = ""
    detect: bool = True
    variant_of: str = ""
    command_extra: str = ""
    version: Version | None = field(default=None, repr=False)
    untested: str = ""
    spack: str = ""
    debian: str = ""

    @property
    def detected(self) -> bool:
        """Whether a name on PATH shows that the program is there."""
        return self.detect and bool(self.executables)


def load(path: Path = FILE) -> dict[str, Program]:
    """The programs by their words.

    :raises ConfigError: an entry is not valid; the message names file, word and key.
    """
    entries = files.read_yaml(path, ConfigError)
    if not isinstance(entries, dict):
        raise ConfigError(f"{path}: must be a mapping of words to programs")
    found = {word: _program(path, word, entry) for word, entry in entries.items()}
    for program in found.values():
        if program.variant_of and program.variant_of not in found:
            raise _refused(path, program.word, "variant_of", "is not a word of this file")
    return found


def _program(path: Path, word: str, entry: Any) -> Program:
    if not isinstance(entry, dict) or not entry.get("descr"):
        raise _refused(path, word, "descr", "is missing: say in a line what the program is")
    known = {*Program.__dataclass_fields__} - {"word"}
    if unknown := sorted(set(entry) - known):
        raise _refused(path, word, unknown[0], "is unknown; known are " + ", ".join(sorted(known)))
    if not {"executables", "family", "variant_of", "command_extra"} & set(entry):
        raise _refused(path, word, "executables", "is missing: nothing says what is started")
    values: dict[str, Any] = {**entry, "executables": tuple(entry.get("executables", ()))}
    try:
        re.compile(entry.get("family", ""))
    except re.error as error:
        raise _refused(path, word, "family", f"is not a regular expression ({error})") from None
    if "version" in entry:
        try:
            version = Version(**entry["version"])
            values["version"] = Version(version.extra, tuple(version.command), version.pattern)
            if re.compile(version.pattern).groups != 1:
                raise TypeError
        except (TypeError, re.error):
            raise _refused(
                path, word, "version",
                "must have extra, command and pattern, and the pattern one group",
            ) from None  # fmt: skip
    return Program(word, **values)


def _refused(path: Path, word: str, key: str, why: str) -> ConfigError:
    return ConfigError(f"{path}: {word}: {key}: {why}")


#: All programs, by the feature word of a stack.
PROGRAMS: Mapping[str, Program] = load()

#: The feature words of stacks, with their meanings.
WORDS = {word: program.descr for word, program in PROGRAMS.items()}

#: Programs that report their own version, by the extra of a stack that holds it.
VERSIONS = {p.version.extra: p.version for p in PROGRAMS.values() if p.version}


def executable(word: str, extras: Mapping[str, Any]) -> str:
    """Name of the program that shows whether a stack has what the word promises.

    :param word: feature of the stack.
    :param extras: the extras of the stack.
    :raises ConfigError: the stack does not say how the program is started.
    """
    program = PROGRAMS[word]
    if program.command_extra in extras:
        words = shlex.split(extras[program.command_extra])
        return words[words[0] == IN_IMAGE]
    if program.variant_of:
        return executable(program.variant_of, extras)
    if word == "btio":
        classes, subtypes = built("btio", extras)
        return btio(classes[0], subtypes[0])
    if word == "npb":
        classes, kernels = built("npb", extras)
        return npb(kernels[0], classes[0])
    if program.executables:
        return program.executables[0]
    raise ConfigError(f"a stack with {word} needs the extra {program.command_extra}")


#: Classes for which the suite runs programs of NPB, in ascending order.
NPB_CLASSES = ("S", "W", "A", "B", "C", "D", "E")

#: The programs of NPB, by the beginning of their names.
NPB_KERNELS = ("bt", "cg", "ep", "ft", "is", "lu", "mg", "sp")


def built(word: str, extras: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The classes, and the subtypes of BT-IO or kernels of NPB, that a stack was built for.

    :param word: btio or npb.
    :raises ConfigError: the stack does not say so.
    """
    what = {"btio": "subtypes", "npb": "kernels"}[word]
    said = extras.get("npb_built", {}).get(word, {})
    if not (said.get("classes") and said.get(what)):
        raise ConfigError(
            f"a stack with {word} needs the extra npb_built: {{{word}: {{classes: [...], "
            f"{what}: [...]}}}}"
        )
    return sorted(said["classes"], key=NPB_CLASSES.index), list(said[what])


def npb(kernel: str, cls: str) -> str:
    """Name of the program of NPB for a kernel and a class."""
    return f"{kernel}.{cls}.x"


#: Classes and subtypes under which BT-IO is built, with the ending of each program's name.
BTIO_CLASSES = NPB_CLASSES
BTIO_SUBTYPES = {"simple": "mpi_io_simple", "full": "mpi_io_full", "epio": "ep_io"}


def btio(cls: str, subtype: str) -> str:
    """Name of the program of BT-IO for a class and a subtype."""
    return f"{npb('bt', cls)}.{BTIO_SUBTYPES[subtype]}"
