"""MPI libraries: how one is made to use UCX only, and to report its world. So far Open MPI.

A stack names its MPI in the extra ``mpi``; the default is ``openmpi``. Cases on a stack with any
other MPI are refused: no report of MPICH, Cray MPICH or Intel MPI was read so far, and without one
nothing proves the size of the world or the path of its messages.

To add one, write the parser of its reports in :mod:`assay.outputs`, with the fields of
:class:`assay.outputs.openmpi.OpenMpi`, and a class like :class:`OpenMpi` here. Then add it to
:data:`LIBRARIES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assay.outputs import openmpi

#: Settings that do not steer how and where bytes move, by the beginning of their names: those that
#: mpirun or srun hands to every rank, and frameworks of the run-time system. Any other setting must
#: be requested, or be in the whitelist of the stack.
RUN_TIME = (
    *("ess", "orte", "prte", "prrte", "pmix", "plm", "ras", "routed", "oob", "rml", "grpcomm"),
    *("odls", "state", "errmgr", "iof", "schizo", "filem", "mpi_abort", "mpi_param_check"),
    *("mpi_show", "opal_abort", "opal_signal", "opal_stacktrace"),
)

#: Words in names of settings that only change what is printed.
PRINTED = ("_verbose", "_warn_", "show_load_errors", "help_aggregate", "report_bindings")

#: Settings that are harmless with this value only.
HARMLESS = {"mpi_oversubscribe": "false", "mpi_yield_when_idle": "false"}

#: Settings of ranks that share cores.
OVERSUBSCRIBED = ("mpi_oversubscribe", "mpi_yield_when_idle", "hwloc_base_binding_policy")

#: What Debian's packages of Open MPI 4.1.4 write into :data:`PACKAGED_FILE`.
PACKAGED = {"pml": "^ucx", "btl": "^uct,openib,ofi", "mtl": "^ofi", "osc": "^ucx,pt2pt"}
PACKAGED_FILE = "/etc/openmpi/openmpi-mca-params.conf"

#: Other names under which Open MPI lists the settings that force pml ucx. Open MPI 4.1 lists the
#: names of pml; 5.0 also lists the names of osc.
SYNONYMS = ("pml_ucx_tls", "pml_ucx_devices", "osc_ucx_tls", "osc_ucx_devices")


class OpenMpi:
    """Open MPI 4.1 and 5.0.

    :cvar report: variables that make each process report its pml, and each world report itself.
    :cvar only_ucx: variables that make ucx the only pml. A program that cannot run over UCX then
        fails. Two of them allow all transports and devices: by default this pml refuses anything
        but InfiniBand of one vendor (opal/mca/common/ucx/common_ucx.c of 4.1.4 and 5.0.10). The
        last one excludes components whose collectives move bytes without the pml, where no log
        shows them.
    """

    word = "openmpi"
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

    def world(self, stderr: str) -> openmpi.OpenMpi:
        """The reports of one launch."""
        return openmpi.parse(stderr)

    def passing_on(self, launcher: str, names: Iterable[str]) -> list[str]:
        """Options of a launcher that pass variables to other nodes; OMPI_* are always passed."""
        return [option for name in names for option in ("-x", name)] if launcher == "mpirun" else []

    def oversubscribed(self, asked: Mapping[str, str]) -> bool:
        """Whether the requested variables allow more ranks on a node than it has cores."""
        return any("oversubscribe" in f"{name}={value}" for name, value in asked.items())

    def unasked(
        self, world: openmpi.OpenMpi, asked: Mapping[str, str], allowed: Mapping[str, str]
    ) -> list[str]:
        """The settings that steer the library and that nobody requested, one line each.

        :param asked: the requested environment variables, with prefix.
        :param allowed: the whitelist of the stack: setting without prefix -> value.
        """
        problems = []
        # mpirun itself sets these where it may start more ranks than there are cores.
        shared = OVERSUBSCRIBED if self.oversubscribed(asked) else ()
        for name, value in world.settings.items():
            file = world.files.get(name)
            if (
                name.startswith(tuple(f"{word}_" for word in RUN_TIME))
                or name in (*RUN_TIME, *SYNONYMS, *shared)
                or any(word in name for word in PRINTED)
                or value == HARMLESS.get(name)
                or value == allowed.get(name)
                or (file is None and f"OMPI_MCA_{name}" in asked)
                or (value == PACKAGED.get(name) and (file or "").startswith(f"{PACKAGED_FILE}:"))
            ):
                continue
            problems.append(
                f"OMPI_MCA_{name}={value} was set outside of the test: unset it, or put it into "
                "the stack's env_vars"
                if file is None
                else f"{name} is set to {value} by {file}: remove it there, or put it into the "
                "stack's extra mca"
            )
        return problems


#: The known libraries, by their words.
LIBRARIES = {library.word: library for library in (OpenMpi(),)}


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
            "src/assay/evidence/mpi.py"
        )
    return LIBRARIES[word]
