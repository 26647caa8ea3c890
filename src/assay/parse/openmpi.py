"""Messages of Open MPI about itself: the pml of each process, and the worlds that came up.

OMPI_MCA_pml_base_verbose=10 and OMPI_MCA_mpi_show_mca_params=enviro,file,api request these
messages. Open MPI 4.1 and 5.0 write them to the standard error of the program (5.0 puts NUL bytes
between them). ``file`` adds the settings that come from files, and with ``api`` also those of
openmpi-mca-params-override.conf (ompi/runtime/ompi_mpi_params.c).

The messages prove the world: within MPI_Init every process names the pml that it selected
(ompi/mca/pml/base/pml_base_select.c), and only rank 0 of each MPI_COMM_WORLD lists its settings
(ompi/runtime/ompi_mpi_params.c:ompi_show_all_mca_params, v4.1.4 line 354, v5.0.10 line 464). One
list and N processes mean one world of N ranks. N lists mean N worlds: the launcher of another MPI
started the ranks, or the ranks lost the environment of their launcher. The lines
``check:select: checking my pml`` prove less: they are missing if one pml is forced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from assay import files
from assay.parse.reading import Process, said_by


@dataclass(frozen=True)
class OpenMpi:
    """The messages of the processes of one launch.

    :ivar selected: the pml of each process that selected one.
    :ivar leaders: the processes that are rank 0 of a world.
    :ivar settings: the MCA settings that the leaders took from the environment or from a file.
    :ivar files: setting -> file and line, for the settings that come from a file
        (``/etc/openmpi/openmpi-mca-params.conf:64``).
    :ivar aborts: the lines which report that MPI gave up, each once. If mpirun says that a rank
        ended without MPI_Finalize, and all ranks did close MPI, the line gives the likely cause.
    :ivar farewells: number of UCX endpoints that could not be closed in order, because the peer
        had already closed the connection (opal/mca/common/ucx/common_ucx.c of v4.1.4, line 470).
    :ivar apart: whether ranks of a node are in different user namespaces, so that Open MPI itself
        does not copy by CMA between them (opal/mca/btl/vader/help-btl-vader.txt of v4.1.4).
    :ivar io: the module of MPI-IO that each process selected for each of its files
        (OMPI_MCA_io_base_verbose=10, ompi/mca/io/base/io_base_file_select.c).
    """

    selected: dict[Process, str] = field(default_factory=dict)
    leaders: set[Process] = field(default_factory=set)
    settings: dict[str, str] = field(default_factory=dict)
    aborts: tuple[str, ...] = ()
    farewells: int = 0
    apart: bool = False
    files: dict[str, str] = field(default_factory=dict)
    io: set[tuple[Process, str]] = field(default_factory=set)

    @property
    def pml(self) -> frozenset[str]:
        """Names of the selected pml components."""
        return frozenset(self.selected.values())

    @property
    def worlds(self) -> int:
        """Number of MPI_COMM_WORLDs that came up; 0 if the output does not mention them."""
        return len(self.leaders)

    @property
    def ranks_seen(self) -> int:
        """Number of ranks in all worlds together; 0 if it is not proven."""
        return len(self.selected) if self.leaders else 0


# UCX has two colons in its brackets.
_PREFIX = re.compile(r"\[([^\s\[\]:]+):(\d{1,9})\] ")
_SELECTED = re.compile(r"select: component (\w+) selected|selected (\w+) best priority -?\d+")
_SETTING = re.compile(r"(\w+)=(.*) \((?:environment|file \((.*)\))\)")
_SOURCES = (" (environment)", "))")  # looked for first: the pattern alone is slow on long lines
_FAREWELL = re.compile(r"\S+:\d+ +Error: ucp_disconnect_nb\(\d+\) failed: Endpoint timeout")
_IO = re.compile(r"io:base:file_select: Selected io module (\w+)")
_CLOSED = re.compile(r"mca: base: close: unloading component (\w+)")
_UNHEARD = re.compile(r"mpirun has exited due to process (rank \d+) with PID \d+ on(?: node)?")
_APART = re.compile(r"CMA\s+is\s+not\s+available\s+due\s+to\s+different\s+user\s+namespaces")
_ABORTS = re.compile("|".join(files.own(__file__, list[str])))


def parse_openmpi(text: str) -> OpenMpi:
    """Read the standard error (and output) of one launch. Never raises.

    Pass the text of one launch at a time: two launches, one after the other, count as two worlds.
    """
    found = OpenMpi()
    aborts: dict[str, None] = {}
    closed: set[Process] = set()
    farewells = 0
    for line in text.replace("\0", "").splitlines():
        if _ABORTS.search(line):
            aborts[_PREFIX.sub("", line).partition(";")[0].strip(" *-")] = None
        for start, said in said_by(line, _PREFIX):
            process = start[1], int(start[2])
            if match := _SELECTED.fullmatch(said):
                found.selected[process] = match[1] or match[2]
            elif said.endswith(_SOURCES) and (match := _SETTING.fullmatch(said)):
                found.settings[match[1]] = match[2]
                if match[3] is not None:
                    found.files[match[1]] = match[3]
                found.leaders.add(process)
            elif (match := _CLOSED.fullmatch(said)) and match[1] == found.selected.get(process):
                closed.add(process)
            elif match := _IO.match(said):
                found.io.add((process, match[1]))
            elif _FAREWELL.fullmatch(said):
                farewells += 1
    told = tuple(_unheard(line, len(closed), len(found.selected)) for line in aborts)
    apart = _APART.search(text) is not None
    return replace(found, aborts=told, farewells=farewells, apart=apart)


def _unheard(line: str, closed: int, ranks: int) -> str:
    """The line of mpirun that blames a rank; if all ranks closed MPI, the likely cause instead.

    In MPI_Finalize, a rank tells mpirun that it ends, and waits 2 s for the answer (seen with PMIx
    4.2.2). Then it ends without the answer. mpirun may see the end of the process before it reads
    what the rank told.

    :param closed: processes that closed their pml, which happens in MPI_Finalize alone.
    """
    match = _UNHEARD.match(line)
    if not match or not ranks or closed < ranks:
        return line
    return (
        f"mpirun says that {match[1]} ended without MPI_Finalize, but the {ranks} ranks that left "
        "a log closed MPI: mpirun probably did not answer them within 2 s. Run it again when the "
        "host is less busy"
    )
