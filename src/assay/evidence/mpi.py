"""MPI libraries: how one is made to use UCX only, and to report its world. So far Open MPI.

A stack names its MPI in the extra ``mpi``; the default is ``openmpi``. Cases on a stack with any
other MPI are refused: no report of MPICH, Cray MPICH or Intel MPI was read so far, and without one
nothing proves the size of the world or the path of its messages.

To add one, write the parser of its reports in :mod:`assay.outputs`, with the fields of
:class:`assay.outputs.openmpi.OpenMpi`, and a class like :class:`OpenMpi` here. Then add it to
:data:`LIBRARIES`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from assay.outputs import openmpi

#: Frameworks of Open MPI that steer how and where bytes move.
STEERING = ("pml", "btl", "mtl", "bml", "osc", "coll", "io")

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
    report = {"OMPI_MCA_pml_base_verbose": "10", "OMPI_MCA_mpi_show_mca_params": "enviro"}
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

    def unasked(self, settings: Mapping[str, str], asked: Collection[str]) -> dict[str, str]:
        """The settings that steer the library but come from no requested variable.

        :param settings: MCA settings as Open MPI lists them, without prefix.
        :param asked: names of the requested environment variables, with prefix.
        """
        return {
            f"OMPI_MCA_{name}": value
            for name, value in settings.items()
            if name.split("_")[0] in STEERING
            and name not in SYNONYMS
            and f"OMPI_MCA_{name}" not in asked
        }


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
