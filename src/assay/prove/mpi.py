"""MPI libraries: how one is made to use UCX only, and to report its world.

Only Open MPI reports both. Under MPICH, Cray MPICH, Intel MPI or another MPI, the program itself
says how many ranks its world has, and the witness of each rank says where it ran. This is enough
for programs that measure no path. Tests of a path are skipped.

A stack may name its MPI in the extra ``mpi``. Otherwise the run shows it, by the library that the
ranks loaded or by what ``mpirun --version`` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from assay.parse import openmpi
from assay.prove import steering
from assay.prove.plan import SETTINGS, Machine

#: Settings that nobody has to request.
_USUAL = [re.compile(pattern) for pattern in SETTINGS["usual"]]


class Mpi:
    """Any MPI. These defaults are those of one whose reports the suite does not read.

    :ivar word: its name, or the path of its library.
    :cvar reports: whether it reports its world and the path of its messages.
    :cvar report: variables that make each process report its pml, and each world report itself.
    :cvar io: value of the parameter ``mpi_io`` of BT-IO -> variables that select this library of
        MPI-IO.
    :cvar report_io: a variable that makes each process name the module that it chose for a file.
    """

    reports = False
    report: Mapping[str, str] = {}
    io: Mapping[str, Mapping[str, str]] = {"romio": {}, "none": {}}
    report_io: Mapping[str, str] = {}

    def __init__(self, word: str) -> None:
        self.word = word


#: How Open MPI prints the value of a switch in its environment.
SWITCHES = {"0": "false", "1": "true"}


class OpenMpi(Mpi):
    """Open MPI 4.1 and 5.0.

    :cvar silence: what is wrong if no process reported its world.
    :cvar only_ucx: variables that make ucx the only pml. A program that cannot run over UCX then
        fails. Two of them allow all transports and devices: by default this pml refuses anything
        but InfiniBand of one vendor (opal/mca/common/ucx/common_ucx.c of 4.1.4 and 5.0.10). The
        last one excludes components whose collectives move bytes without the pml, where no log
        shows them.
    """

    reports = True
    silence = "Open MPI printed nothing about its world: is the program linked to another MPI?"
    report = {"OMPI_MCA_pml_base_verbose": "10", "OMPI_MCA_mpi_show_mca_params": "enviro,file,api"}
    only_ucx = {
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
        "OMPI_MCA_coll": "^sm,xhc,hcoll,ucc",
    }
    # The name of the component of ROMIO contains a version (romio321, romio341); it is the only one
    # beside ompio.
    io = {"ompio": {"OMPI_MCA_io": "ompio"}, "romio": {"OMPI_MCA_io": "^ompio"}, "none": {}}
    report_io = {"OMPI_MCA_io_base_verbose": "10"}

    def passing_on(self, launcher: str, names: Iterable[str]) -> list[str]:
        """Options of a launcher that pass variables to other nodes; OMPI_* are always passed."""
        return [option for name in names for option in ("-x", name)] if launcher == "mpirun" else []

    def oversubscribed(self, asked: Mapping[str, str]) -> bool:
        """Whether the requested variables allow more ranks on a node than it has cores."""
        return any("oversubscribe" in f"{name}={value}" for name, value in asked.items())

    def waits(self, asked: Mapping[str, str]) -> bool:
        """Whether the requested variables say that ranks may wait for a core: they then yield."""
        return asked.get("OMPI_MCA_mpi_yield_when_idle") == "1" or self.oversubscribed(asked)

    def unasked(
        self, world: openmpi.OpenMpi, asked: Mapping[str, str], machine: Machine
    ) -> list[str]:
        """The settings that steer the library and that nobody requested, one line each.

        :param asked: the requested environment variables, with prefix.
        """
        found = []
        # mpirun itself sets these where it may start more ranks than there are cores.
        shared = SETTINGS["oversubscribed"] if self.oversubscribed(asked) else ()
        for name, value in world.settings.items():
            file = world.files.get(name)
            variable = f"OMPI_MCA_{name}"
            if variable in asked:
                # Open MPI prints other settings in words of its own: 10 as component, 1 as true.
                # Only a file of overrides counts more than the environment.
                if "_" not in name:
                    mend = f": remove it from {file}" if file else ""
                    wrong = steering.other_value(variable, value, asked[variable])
                    found += [f"{line}{mend}" for line in wrong]
            elif not (
                any(usual.fullmatch(f"{name} {value}") for usual in _USUAL)
                or name in shared
                or any(word in name for word in SETTINGS["printed_by_mpi"])
                or (not file and value == SWITCHES.get(machine.variables.get(variable, "")))
            ):
                found += (
                    machine.setting(file, name, value) if file
                    else machine.variable(variable, value)
                )  # fmt: skip
        return found

    def other_pml(
        self, world: openmpi.OpenMpi, variables: Mapping[str, str], expected: str | None
    ) -> list[str]:
        """A problem if ranks chose another pml than asked for, or not all the same.

        :param variables: the requested environment variables, with prefix.
        :param expected: the pml that the site expects where no test asks for one.
        """
        chosen = ", ".join(sorted(world.pml))
        if asked := variables.get("OMPI_MCA_pml"):
            # A list, or the name of what is not allowed, is not one pml.
            wrong = re.fullmatch(r"\w+", asked) and not world.pml <= {asked}
            return [f"Open MPI chose the pml {chosen}; {asked} was asked for"] if wrong else []
        if expected is not None and not world.pml <= {expected}:
            return [f"Open MPI chose the pml {chosen}; the site says {expected} (extra `pml`)"]
        return [f"the ranks chose different pmls: {chosen}"] if len(world.pml) > 1 else []

    def other_io(self, world: openmpi.OpenMpi, asked: str, ranks: int) -> list[str]:
        """Evidence that not all ranks wrote with the requested library, one line each."""
        modules, processes = sorted({name for _, name in world.io}), {who for who, _ in world.io}
        if asked == "none":
            by = ", ".join(modules)
            return [f"MPI-IO by {by}, where there was to be none"] if modules else []
        if not modules:
            return [f"no process opened a file by MPI-IO: does this Open MPI have {asked}?"]
        if others := [name for name in modules if not name.startswith(asked)]:
            return [f"MPI-IO was done by {', '.join(others)}; {asked} was asked for"]
        if len(processes) != ranks:
            return [f"{len(processes)} of {ranks} ranks named their library of MPI-IO"]
        return []


OPEN_MPI = OpenMpi("openmpi")

#: Names of libraries of MPI-IO that Open MPI can be told to use.
MPI_IO = tuple(OPEN_MPI.io)

_OPEN_MPI = re.compile(r"/libopen-(pal|rte)\.so|/libmpi\.so\.[24]0\b")
_LIBRARY = re.compile(r"/lib(x?mpi|mpich)(_\w+)?\.so")

#: What ``mpirun --version`` says of other libraries.
_LAUNCHERS = {"HYDRA": "mpich", "Intel(R) MPI": "intel-mpi", "Spectrum MPI": "spectrum-mpi"}


def of_stack(extras: Mapping[str, Any]) -> Mpi:
    """The MPI that a stack states; Open MPI if it states none."""
    word = extras.get("mpi", OPEN_MPI.word)
    return OPEN_MPI if word == OPEN_MPI.word else Mpi(word)


def of_run(libraries: Iterable[str], launcher: str) -> Mpi | None:
    """The MPI that ran; None if nothing shows it.

    :param libraries: paths of the libraries that the ranks loaded.
    :param launcher: what ``mpirun --version`` said, if this mpirun started the ranks.
    """
    paths = sorted(libraries)
    if any("/libmpi_ibm." in path for path in paths):
        return Mpi("spectrum-mpi")  # built from Open MPI; its reports were never seen
    if any(map(_OPEN_MPI.search, paths)):
        return OPEN_MPI
    for path in paths:
        if _LIBRARY.search(path):
            return Mpi(path)
    return next((Mpi(word) for said, word in _LAUNCHERS.items() if said in launcher), None)
