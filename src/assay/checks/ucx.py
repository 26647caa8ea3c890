"""Programs over UCX: environment variables steer them, and the log of UCX shows what they did."""

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
    return ucx_log.parse("".join(text(path) for path in sorted(folder.glob(LOG_FILES))))


class UcxMixin(rfm.RegressionTestPlugin):
    """A program over UCX. Name this mixin before :class:`assay.checks.strict.StrictCheck`."""

    def ucx_version(self) -> str:
        """UCX version of the stack; the case is skipped if the stack does not state it."""
        version = self.current_environ.extras.get("ucx_version")
        self.skip_if(version is None, "this stack does not say which UCX it has (ucx_version)")
        return str(version)

    def steer_ucx(self, variables: Mapping[str, str]) -> None:
        """Sets variables of UCX, and keeps its logs."""
        self.env_vars.update(variables)
        self.env_vars["UCX_LOG_FILE"] = LOGS
        self.keep_files.append(LOG_FILES)

    def force_pml_ucx(self) -> None:
        """Makes UCX the only choice of Open MPI, on all nodes. Call it after :meth:`steer_ucx`."""
        self.env_vars.update(transports.pml_environment())
        # Collectives of these components move bytes without the pml, where no log shows them.
        self.env_vars["OMPI_MCA_coll"] = "^sm,xhc,hcoll,ucc"
        if self.current_partition.launcher_type.registered_name == "mpirun":
            # mpirun passes OMPI_* to other nodes by itself.
            names = [name for name in self.env_vars if name.startswith(PASSED_ON)]
            self.job.launcher.options = [
                *self.job.launcher.options,
                *(option for name in names for option in ("-x", name)),
            ]

    def fallen_back(self) -> list[str]:
        """A problem if ranks chose a pml other than ucx. Call it after the proof."""
        pml: list[str] = self._record["proof"]["pml"]
        if pml and pml != ["ucx"]:
            return [f"Open MPI chose the pml {', '.join(pml)}; ucx was asked for"]
        return []
