"""Programs over UCX: environment variables steer them, and the log of UCX shows what they did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reframe as rfm

from assay.parse import Parsed, ucx_log
from assay.parse.ucx_log import UcxLog
from assay.prove import launch, mpi, plan, steering, transports
from assay.run.job_request import HANDING_ON

#: One log for each process, so that UCX never writes into the output of the benchmark.
LOGS = "ucx.%h.%p.log"
LOG_FILES = "ucx.*.log"

#: Prefixes of variables that mpirun passes to other nodes only if it gets their names.
PASSED_ON = ("UCX_", "GDRCOPY_")


def text(path: Any) -> str:
    """The text of a log, whatever bytes are in it; empty if it cannot be read."""
    try:
        return Path(str(path)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def said(folder: Path) -> UcxLog:
    """What all processes of a launch logged in a folder."""
    return ucx_log.parse_ucx_log("".join(text(path) for path in sorted(folder.glob(LOG_FILES))))


def errors(log: UcxLog) -> list[str]:
    """Each error of a log, in one line."""
    return [f"UCX ERROR: {error}" for error in log.errors]


class UcxMixin(rfm.RegressionTestPlugin):
    """A program over UCX. Name this mixin before :class:`assay.run.strict.StrictCheck`."""

    def _ucx_version(self, stack: Any = None) -> str:
        """UCX version of the program; the case is skipped if the stack does not state it, and red.

        :param stack: another environment than that of the case.
        """
        extras = (stack or self.current_environ).extras
        version = extras.get("ucx_version")
        other = "; state mpi, if its MPI is not Open MPI"
        if not hasattr(type(self), "mpi_library"):
            other = ""
            # ucx_perftest may be of another UCX than the one that the MPI loads.
            version = extras.get("ucx_tools_version", version)
        which = f"the stack {stack.name}" if stack else "this stack"
        why = f"{which} does not say which UCX it has (ucx_version){other}"
        self.leave_out("undescribed", version is None, why)
        return str(version)

    def _ucx_that_ran(self, log: UcxLog) -> str:
        """Version of the UCX under test: if it is of a module, the one that ran."""
        ran = sorted({version for version, _ in log.versions.values()})
        return ran[0] if ran and self._of_modules else self._ucx_version()

    def _variables_of(
        self, transport: str, device: str | None = None, stack: Any = None
    ) -> dict[str, str]:
        """Variables that allow UCX only this transport; skips what its UCX cannot run.

        :param device: see :func:`assay.prove.transports.transport_variables`.
        """
        version = self._ucx_version(stack)
        refused = transports.unusable(transport, version, device)
        which = f"the stack {stack.name}: " if stack else ""
        self.leave_out("not-here", refused is not None, f"{which}{refused}")
        gid_index = self.current_partition.extras.get("gid_index")
        return transports.transport_variables(transport, version, device, gid_index)

    def _steer_ucx(self, variables: Mapping[str, str]) -> None:
        """Sets variables of UCX, and keeps its logs; an MPI gets no other choice, on all nodes."""
        self.env_vars.update(variables)
        self.env_vars["UCX_LOG_FILE"] = LOGS
        self.keep_files.append(LOG_FILES)
        if not hasattr(type(self), "mpi_library"):
            return
        self.env_vars.update(mpi.OPEN_MPI.only_ucx)
        names = [name for name in self.env_vars if name.startswith(PASSED_ON)]
        several = self.num_tasks > (self.num_tasks_per_node or self.num_tasks)
        starter = self._starter
        why = f"the launcher {starter} is not known to hand variables on to other nodes"
        self.leave_out("not-here", several and starter not in HANDING_ON, why)
        passing = mpi.OPEN_MPI.passing_on(starter, names)
        self.job.launcher.options = [*self.job.launcher.options, *passing]

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds variables that UCX read otherwise than requested, and libraries of other stacks."""
        problems: list[str] = super().examine(parsed)
        asked = self._requested_variables()
        log = said(Path())
        problems += steering.of_ucx(log, asked, self._machine)
        if not self.parallel:  # MpiCheck does it for all programs of MPI
            problems += errors(ucx_log.parse_ucx_log(text(self.stderr)))
        if self._node_after is not None and "image" not in self.current_environ.extras:
            loaded = {library for _, library in log.versions.values()}
            problems += self._foreign(loaded, self._node_after, ())
        if self._of_modules:
            stated = self._ucx_version()
            problems += [
                plan.Note(f"UCX {version} of a module ran ({library}), the stack states {stated}")
                for version, library in sorted(set(log.versions.values()))
                if version != stated
            ]
        # Filled by MpiCheck: the processes that this launch started.
        started = getattr(self, "_started", None)
        if started and "image" not in self.current_environ.extras:
            here = {(launch.short_name(host), pid) for host, pid in log.processes}
            problems += [
                f"UCX left a log of {host}:{pid}, which this launch did not start"
                for host, pid in sorted(here - started)
            ]
        return list(dict.fromkeys(problems))
