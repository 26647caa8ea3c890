"""MPI libraries: how one is made to use UCX only, and to report its world. So far Open MPI.

A stack names its MPI in the extra ``mpi``; the default is ``openmpi``. Cases on a stack with any
other MPI are refused: no report of MPICH, Cray MPICH or Intel MPI was read so far, and without one
nothing proves the size of the world or the path of its messages.

To add one, write the parser of its reports in :mod:`assay.parse`, with the fields of
:class:`assay.parse.openmpi.OpenMpi`, and a class like :class:`OpenMpi` here. Then add it to
:data:`LIBRARIES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from assay.parse import openmpi
from assay.prove import steering
from assay.prove.accelerator import Accelerator
from assay.prove.plan import PRINTED_BY_MPI, Machine
from assay.workloads.osu import numbers

#: Settings that do not steer how and where bytes move, by the beginning of their names: those that
#: mpirun or srun hands to every rank, and frameworks of the run-time system.
RUN_TIME = (
    *("ess", "orte", "prte", "prrte", "pmix", "plm", "ras", "routed", "oob", "rml", "grpcomm"),
    *("odls", "state", "errmgr", "iof", "schizo", "filem", "mpi_abort", "mpi_param_check"),
    *("mpi_show", "opal_abort", "opal_signal", "opal_stacktrace"),
)

#: Settings that mpirun itself hands to every rank with this value.
DEFAULTS = {"mpi_oversubscribe": "false", "mpi_yield_when_idle": "false"}

#: Settings of ranks that share cores.
OVERSUBSCRIBED = ("mpi_oversubscribe", "mpi_yield_when_idle", "hwloc_base_binding_policy")

#: mpirun of Open MPI 5.0.7 of Debian 13 sets these for each rank, to a directory of the package.
COMPONENTS = ("mca_base_component_path", "mca_component_path")
PACKAGED_COMPONENTS = re.compile(r"/usr/lib/[\w.-]+/(pmix\d*/lib/)?pmix")

#: Other names under which Open MPI lists the settings that force pml ucx. Open MPI 4.1 lists the
#: names of pml; 5.0 also lists the names of osc.
SYNONYMS = ("pml_ucx_tls", "pml_ucx_devices", "osc_ucx_tls", "osc_ucx_devices")


class OpenMpi:
    """Open MPI 4.1 and 5.0.

    :cvar silence: what is wrong if no process reported its world.
    :cvar report: variables that make each process report its pml, and each world report itself.
    :cvar only_ucx: variables that make ucx the only pml. A program that cannot run over UCX then
        fails. Two of them allow all transports and devices: by default this pml refuses anything
        but InfiniBand of one vendor (opal/mca/common/ucx/common_ucx.c of 4.1.4 and 5.0.10). The
        last one excludes components whose collectives move bytes without the pml, where no log
        shows them.
    :cvar io: value of the parameter ``mpi_io`` of BT-IO -> variables that select this library of
        MPI-IO. The name of the component of ROMIO contains a version (romio321, romio341); it is
        the only one beside ompio.
    :cvar report_io: a variable that makes each process name the module that it chose for a file.
    """

    word = "openmpi"
    silence = "Open MPI printed nothing about its world: is the program linked to another MPI?"
    report = {
        "OMPI_MCA_pml_base_verbose": "10",
        "OMPI_MCA_mpi_show_mca_params": "enviro,file,api",
    }
    only_ucx = {
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
        "OMPI_MCA_coll": "^sm,xhc,hcoll,ucc",
    }
    io: Mapping[str, Mapping[str, str]] = {
        "ompio": {"OMPI_MCA_io": "ompio"},
        "romio": {"OMPI_MCA_io": "^ompio"},
        "none": {},
    }
    report_io = {"OMPI_MCA_io_base_verbose": "10"}

    def world(self, stderr: str) -> openmpi.OpenMpi:
        """The reports of one launch."""
        return openmpi.parse(stderr)

    def passing_on(self, launcher: str, names: Iterable[str]) -> list[str]:
        """Options of a launcher that pass variables to other nodes; OMPI_* are always passed."""
        return [option for name in names for option in ("-x", name)] if launcher == "mpirun" else []

    @staticmethod
    def oversubscribed(asked: Mapping[str, str]) -> bool:
        """Whether the requested variables allow more ranks on a node than it has cores."""
        return any("oversubscribe" in f"{name}={value}" for name, value in asked.items())

    @staticmethod
    def waits(asked: Mapping[str, str]) -> bool:
        """Whether the requested variables say that ranks may wait for a core: they then yield."""
        yields = asked.get("OMPI_MCA_mpi_yield_when_idle") == "1"
        return yields or OpenMpi.oversubscribed(asked)

    def unasked(
        self, world: openmpi.OpenMpi, asked: Mapping[str, str], machine: Machine
    ) -> list[str]:
        """The settings that steer the library and that nobody requested, one line each.

        :param asked: the requested environment variables, with prefix.
        """
        found = []
        # mpirun itself sets these where it may start more ranks than there are cores.
        shared = OVERSUBSCRIBED if self.oversubscribed(asked) else ()
        for name, value in world.settings.items():
            file = world.files.get(name)
            variable = f"OMPI_MCA_{name}"
            if variable in asked:
                # Open MPI prints other settings in words of its own: 10 as component, 1 as true.
                # Only a file of overrides counts more than the environment.
                if "_" not in name:
                    found += steering.other_value(variable, value, asked[variable])
            elif not (
                name.startswith(tuple(f"{word}_" for word in RUN_TIME))
                or name in (*RUN_TIME, *SYNONYMS, *shared)
                or any(word in name for word in PRINTED_BY_MPI)
                or value == DEFAULTS.get(name)
                or (name in COMPONENTS and PACKAGED_COMPONENTS.fullmatch(value))
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
            return (
                [f"MPI-IO by {', '.join(modules)}, where there was to be none"] if modules else []
            )
        if not modules:
            return [f"no process opened a file by MPI-IO: does this Open MPI have {asked}?"]
        if others := [name for name in modules if not name.startswith(asked)]:
            return [f"MPI-IO was done by {', '.join(others)}; {asked} was asked for"]
        if len(processes) != ranks:
            return [f"{len(processes)} of {ranks} ranks named their library of MPI-IO"]
        return []

    def cannot_reduce(self, extras: Mapping[str, Any], gpu: Accelerator) -> str:
        """Why this library, by the extras of its stack, cannot reduce on these GPUs; else empty."""
        version, since = extras.get("openmpi_version", "0"), gpu.reduces_since
        if numbers(version)[:2] >= since:
            return ""
        return (
            f"Open MPI {version} cannot reduce in the memory of GPUs of {gpu.vendor}; "
            f"{'.'.join(map(str, since))} can"
        )


#: The known libraries, by their words.
LIBRARIES = {library.word: library for library in (OpenMpi(),)}

#: Names of libraries of MPI-IO that some MPI library can be told to use.
MPI_IO = tuple(dict.fromkeys(name for library in LIBRARIES.values() for name in library.io))


def of_stack(name: str, extras: Mapping[str, Any]) -> OpenMpi:
    """The MPI library of a stack.

    :param name: name of the stack.
    :param extras: its extras.
    :raises ValueError: nothing is known of this MPI; the message is one line for the user.
    """
    word = extras.get("mpi", OpenMpi.word)
    if word not in LIBRARIES:
        raise ValueError(
            f"the stack {name} has the MPI {word} (extra `mpi`), whose reports the suite cannot "
            f"read: use a stack with {' or '.join(LIBRARIES)}, or add {word} to "
            "src/assay/prove/mpi.py"
        )
    return LIBRARIES[word]
