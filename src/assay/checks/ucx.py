"""Programs over UCX: they are steered by variables, and UCX's own log says what they did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reframe as rfm

from assay.evidence import transports
from assay.outputs import ucx_log
from assay.outputs.ucx_log import UcxLog

#: One log for each process, so that UCX never writes into the output of the benchmark.
LOGS = "ucx.%h.%p.log"
LOG_FILES = "ucx.*.log"

#: Variables that mpirun passes on to other nodes only when it is told their names.
PASSED_ON = ("UCX_", "GDRCOPY_")


def text(path: Any) -> str:
    """A log, whatever bytes are in it; empty where there is none."""
    try:
        return Path(str(path)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def said(folder: Path) -> UcxLog:
    """What all processes of a launch logged in a folder."""
    return ucx_log.parse("".join(text(path) for path in sorted(folder.glob(LOG_FILES))))


class UcxMixin(rfm.RegressionTestPlugin):
    """A program over UCX. To be named before :class:`assay.checks.strict.StrictCheck`."""

    def ucx_version(self) -> str:
        """Version of the UCX of the stack; the case is skipped where the stack does not say it."""
        version = self.current_environ.extras.get("ucx_version")
        self.skip_if(version is None, "this stack does not say which UCX it has (ucx_version)")
        return str(version)

    def steer_ucx(self, variables: Mapping[str, str]) -> None:
        """Sets variables of UCX, and keeps its logs."""
        self.env_vars.update(variables)
        self.env_vars["UCX_LOG_FILE"] = LOGS
        self.keep_files.append(LOG_FILES)

    def force_pml_ucx(self) -> None:
        """Leaves Open MPI no way but UCX, on all nodes. Call it after :meth:`steer_ucx`."""
        self.env_vars.update(transports.pml_environment())
        # Collectives of these components move bytes around the pml, where no log shows them.
        self.env_vars["OMPI_MCA_coll"] = "^sm,xhc,hcoll,ucc"
        if self.current_partition.launcher_type.registered_name == "mpirun":
            # Across nodes mpirun passes on OMPI_* by itself.
            names = [name for name in self.env_vars if name.startswith(PASSED_ON)]
            self.job.launcher.options = [
                *self.job.launcher.options,
                *(option for name in names for option in ("-x", name)),
            ]

    def fallen_back(self) -> list[str]:
        """The problem that ranks took another pml, if any did. Call it after the proof."""
        pml: list[str] = self._record["proof"]["pml"]
        if pml and pml != ["ucx"]:
            return [f"Open MPI chose the pml {', '.join(pml)}; ucx was asked for"]
        return []
