"""IOR and mdtest by the rules of IO500: what their tests have in common."""

from __future__ import annotations

from reframe.core.builtins import run_after, run_before

from assay.opinions import io500
from assay.run.mpi import MpiCheck
from assay.run.storage import StorageMixin
from assay.workloads.sizing import Layout


class Io500Check(StorageMixin, MpiCheck):
    """A program of IO500, on all nodes that share a directory.

    A test states its ``pattern``, one of :data:`assay.opinions.io500.PATTERNS`. In the full
    profile, a file system in memory is skipped.
    """

    kind = "storage"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+ior"]
    time_limit = "2h"

    @run_after("init")
    def _describe(self) -> None:
        self.descr = f"{self.executable}, pattern {self.pattern} of IO500"

    def layout(self, cores: int) -> Layout:
        """All nodes that share the directory, see :func:`assay.opinions.io500.layout`."""
        partition = self.current_partition
        return io500.layout(partition.features, partition.extras, cores)

    @run_after("setup")
    def _choose_time(self) -> None:
        self._seconds = io500.SECONDS[self.profile]
        if self.profile == "full":
            self.not_in_memory(self._seconds)

    @run_before("run")
    def _work_there(self) -> None:
        # The programs write beside where they are started.
        self.prerun_cmds.append('cd "$work" || exit 1')
