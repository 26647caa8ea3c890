"""Environment modules: which system a machine has, and which modules bring MPI or programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from assay.catalogue import PROGRAMS
from assay.locks.lockfile import package
from assay.sites import detect

#: Names of modules that bring an MPI library, and of those that bring CUDA.
MPI = re.compile(
    r"(^|/)(openmpi|ompi|hpcx|mpich|mvapich|impi|intel-?mpi|cray-mpich)[^/]*(/|$)", re.I
)
CUDA = re.compile(r"(^|/)(cuda|cudatoolkit|nvhpc)[^/]*(/|$)", re.I)

#: The shell that has the function `module` is a login shell. The two answers are one text.
QUERY = ("bash", "-lc", "module --version 2>&1; echo; module -t avail 2>&1")


def ask() -> str:
    """What the module system answers on this machine, :data:`QUERY`."""
    return detect.output(*QUERY)


def system(said: str) -> str:
    """The name that ReFrame gives to the module system; ``nomod`` if there is none.

    :param said: what :data:`QUERY` prints.
    """
    if re.search(r"^Modules based on Lua: Version", said, re.MULTILINE):
        return "lmod"
    if release := re.search(r"Modules Release (\d+)", said):
        return "tmod4" if int(release[1]) >= 4 else "tmod32"
    return "nomod"


def available(said: str) -> list[str]:
    """The modules in an output of ``module -t avail`` of Lmod or Environment Modules, each once.

    A line that ends in ``:`` names a folder, one that ends in ``/`` a family of modules. A mark in
    parentheses, such as ``(default)``, is not of the name.
    """
    names = (re.sub(r"\(.*\)$", "", line.strip()) for line in said.splitlines())
    return list(dict.fromkeys(n for n in names if re.fullmatch(r"[\w.+@-]+(/[\w.+@-]+)*", n)))


def that_bring_mpi(names: Iterable[str]) -> list[str]:
    """The modules whose name is that of an MPI library."""
    return [name for name in names if MPI.search(name)]


def that_bring_cuda(names: Iterable[str]) -> list[str]:
    """The modules whose name is that of CUDA."""
    return [name for name in names if CUDA.search(name)]


def that_bring_programs(names: Iterable[str]) -> list[str]:
    """The modules with the name of a program of the catalogue, or of its package in Spack."""
    words = {word for word in PROGRAMS if word != "mpi"}
    words |= {package(p.spack) for p in PROGRAMS.values() if p.spack} - {"openmpi"}
    return [name for name in names if {*name.lower().split("/")} & words]


def unknown(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of the wanted modules that is not available, by its name or its version too."""
    families = {name.rpartition("/")[0] for name in names} | {*names}
    return next((name for name in wanted if name not in families), None)
