"""Phases ``setup`` and ``run``: whether a case is launched, and what its job script adds."""

from __future__ import annotations

import secrets
import shlex
import shutil
from pathlib import Path

from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before

from assay import deadline, slurm
from assay.prove import busy, counters, launch, steering
from assay.reframe_compat import testcase
from assay.run import attempts, options
from assay.run.job_request import JobRequest
from assay.run.site import misdescribed
from assay.store import record

#: How long a job may wait in the queue if the site sets no limit.
MAX_PENDING = "1d"


class JobScript(JobRequest):
    """The part of :class:`assay.run.strict.StrictCheck` that acts before the benchmark runs."""

    @run_before("setup")
    def _begin_unless_settled(self) -> None:
        # Before setup, only the test case knows its partition.
        partition, environ = testcase.place(self)
        try:
            options.take(self, partition.extras.get("options", {}))
        except ValueError as error:
            raise misdescribed(partition, str(error)) from None
        self._attempts = attempts.of((self.unique_name, partition.fullname, environ.name))
        if self.is_dry_run():
            return
        if failure := self._attempts.settled():
            if self._attempts.stagedir:
                testcase.move(self, self._attempts.stagedir)
            raise failure
        if why := deadline.reached():
            self.skip(f"{why} before it was begun")

    @run_after("setup")
    def _prepare_the_job(self) -> None:
        partition = self.current_partition
        # ReFrame has just emptied the stage directory. What is older than this file is not of the
        # launch.
        self._nonce = secrets.token_hex(8)
        (Path(self.stagedir) / launch.NONCE_FILE).write_text(self._nonce + "\n")
        if self.profile == "smoke" and self.smoke is not None:
            out = {*self.smoke}.isdisjoint(map(str, self.identity().values()))
            why = f"the smoke profile of {partition.fullname} is {', '.join(self.smoke)}"
            self.leave_out("not-asked", out, why)
        # A job that asks for more nodes than are up stays in the queue for ever.
        self.max_pending_time = partition.extras.get("max_pending", MAX_PENDING)
        # By default Slurm restarts a job after its node has died, which hides the failure.
        if partition.scheduler.registered_name in slurm.SCHEDULERS:
            self.job.options.append("--no-requeue")
        if not self.parallel:
            self.job.launcher = getlauncher("local")()
        # The cases of all partitions on one machine then share ReFrame's limit `max_local_jobs`.
        self.local = partition.scheduler.is_local

    @run_before("run")
    def _reach_into_the_image(self) -> None:
        # The wrappers bind the working directory. Nothing else under test is in the image.
        stack = self.current_environ.extras
        if "image" not in stack:
            return
        if directory := self.current_partition.extras.get("directory"):
            bound = f"{shlex.quote(directory)}${{APPTAINER_BIND:+,$APPTAINER_BIND}}"
            self.prerun_cmds.insert(0, f"export APPTAINER_BIND={bound}")

    @run_before("run", always_last=True)
    def _witness_the_launch(self) -> None:
        self._ask()
        shutil.copy(steering.WITNESS, self.stagedir)
        # What the site and the test ask for may be written down, too.
        known = [steering.RECORDED.read_text(encoding="utf-8"), *self._requested_variables(), ""]
        (Path(self.stagedir) / steering.RECORDED.name).write_text("\n".join(known))
        # A test of a node without a benchmark has nothing that a counter could disturb.
        measures = self.kind != "node"
        if measures:
            (Path(self.stagedir) / counters.SCRIPT).write_text(counters.script())
            self.prerun_cmds.insert(0, counters.in_job("before"))
            self.postrun_cmds.insert(0, counters.in_job("after"))
        self.prerun_cmds.insert(0, launch.FIRST)
        self.postrun_cmds[:0] = launch.BEHIND
        if self._others:
            self.prerun_cmds += [*busy.script(self._others), launch.SHARED_BEFORE]
            self.postrun_cmds[len(launch.BEHIND) : len(launch.BEHIND)] = launch.SHARED_BEHIND
        if measures:
            self.prerun_cmds.append(counters.WAIT)
            self.postrun_cmds += [steering.OF_JOB, counters.WAIT]
        self.prerun_cmds.append(launch.BEFORE)
        self.postrun_cmds.append(launch.LAST)
        self.keep_files += [record.FILE, launch.FILE, steering.RANKS, steering.JOB]
        self.keep_files += counters.FILES if measures else []
        if not self.is_dry_run():
            self._attempts.begin(self.stagedir)
