"""ReFrame's schedulers with time limits: a job or a Slurm command that never ends is given up.

ReFrame 4.10.4 waits without limit for a Slurm command that hangs, and for a job that stays pending
or completing. It calls ``scancel`` at each poll of such a job. It takes a failing ``squeue`` as
proof that the job has completed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import time
from types import SimpleNamespace
from typing import Any

from reframe.core import backends, exceptions
from reframe.core.schedulers import local, slurm
from reframe.utility import osext

from assay import deadline
from assay.reframe_compat import leash
from assay.slurm import Ended, ended

#: How long Slurm may take for actions that normally take seconds [s]: to complete a job, to cancel
#: a job, to end a job that is out of time. It has a third of it to answer, a command a sixth.
PATIENCE = "ASSAY_PATIENCE"
PATIENCE_S = 120.0

#: What a command says when it found no controller (``slurm_errno.c`` of Slurm 22.05).
SILENT = re.compile("Unable to contact slurm|Communication connection failure|Socket timed out")

#: Program that knows the end of a job -> the words of its query.
QUERIES = {"scontrol": "show job --oneliner", "sacct": "-nPX -o state,exitcode,nodelist -j"}

#: First pause before another scancel of the same job [s]. Each pause is twice the one before.
AGAIN_S = 10.0

#: Exit code of a command that was ended because it took too long.
TIMED_OUT = 124

#: Pause between two polls while waiting for a job [s].
PAUSE_S = 0.2


def patience() -> float:
    """``$ASSAY_PATIENCE`` in seconds, or :data:`PATIENCE_S`."""
    try:
        return float(os.environ.get(PATIENCE, PATIENCE_S))
    except ValueError:
        raise exceptions.ConfigError(
            f"{PATIENCE}={os.environ[PATIENCE]!r} is not a number of seconds; write it like 120"
        ) from None


def run_command(
    cmd: Any, check: bool = False, timeout: float | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Replaces ReFrame's function of that name; returns even if the command never ends.

    A command that exceeds its time is killed. The function does not wait until the command is gone,
    because it may hang in the kernel. The exit code is then 124.

    :raises SpawnedProcessError: `check` is set, and the command failed.
    """
    timeout = timeout or max(patience() / 6, 1)
    process = osext.run_command_async(cmd, start_new_session=True, **more)
    try:
        out, err = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        out, code = "", TIMED_OUT
        err = f"{_program(cmd)} did not end within {timeout:g} s"
    if check and code != 0:
        raise exceptions.SpawnedProcessError(cmd, out, err, code)
    return subprocess.CompletedProcess(cmd, code, out, err)


def _program(cmd: Any) -> str:
    return str(cmd.split()[0] if isinstance(cmd, str) else cmd[0])


def _what(error: exceptions.SpawnedProcessError) -> str:
    """One line about a command that failed."""
    said = " ".join(str(error.stderr or "").split()) or f"exit code {error.exitcode}"
    name = _program(error.command)
    return said if said.startswith(name) else f"{name}: {said}"


def _kind(state: str | None) -> str:
    if not state:
        return "unknown"
    if slurm.slurm_state_completed(state):
        return "ended"
    if "COMPLETING" in state:
        return "completing"
    return "pending" if slurm.slurm_state_pending(state) else "running"


class _Job(slurm._SlurmJob):  # type: ignore[misc]
    """A job that knows since when it has its state (monotonic clock), and how it was cancelled.

    ReFrame asks Slurm for its nodes at each access. Here they are known when it has ended.

    :ivar cancelled: when the job was first cancelled; None before that.
    :ivar again: when the job may be cancelled again.
    :ivar why: why the job was cancelled, if that makes its case fail.
    :ivar end: how Slurm says that it ended; None before that.
    """

    kind, since = "", 0.0
    cancelled: float | None = None
    again, pause = 0.0, AGAIN_S
    why, said = "", ""
    given_up = False
    end: Ended | None = None

    @property
    def nodelist(self) -> list[str]:
        return list(self._nodelist)


class _Bounded(slurm.SlurmJobScheduler):  # type: ignore[misc]
    """Slurm, whose jobs have a time limit in every state; squeue knows them (MinJobAge)."""

    def __init__(self) -> None:
        super().__init__()
        # If sbatch is killed half-way, it may leave a job behind that nobody knows. It therefore
        # gets more time than other commands.
        limit = self.get_option("job_submit_timeout") or patience()
        self._submit_timeout = min(limit, max(patience() / 3, 1))
        self._silent: float | None = None
        self._dead = False
        self._asked: list[str] = []

    def submit(self, job: Any) -> None:
        super().submit(job)
        leash.tell("+", job.jobid)

    def poll(self, *jobs: Any) -> None:
        asked = [job for job in jobs if job is not None and not job.given_up]
        if not asked:
            return
        self._asked = [job.jobid for job in asked]
        began = time.monotonic()
        try:
            self._ask(asked)
            self._silent = None
        except exceptions.SpawnedProcessError as error:
            self._unanswered(error, began)
        for job in asked:
            self._watch(job)

    def _unanswered(self, error: exceptions.SpawnedProcessError, began: float) -> None:
        """Ends the run if Slurm has not answered for too long, since `began` or before.

        :raises ForceExitError: the run ends; ReFrame aborts all cases.
        """
        self.log(_what(error))
        self._silent = began if self._silent is None else self._silent
        silent = time.monotonic() - self._silent
        if silent >= patience() / 3 or (error.exitcode == TIMED_OUT and "sbatch" in _what(error)):
            self._dead = True
            left = " ".join(self._asked)
            mend = f"; when it does again: scancel {left}" if left else ""
            said = f"Slurm did not answer for {silent:.0f} s: {_what(error)}"
            raise exceptions.ForceExitError(f"{said}{mend}")

    def _ask(self, jobs: list[Any]) -> None:
        """Updates the state of the jobs; sacct is only asked for one that Slurm has forgotten.

        :raises SpawnedProcessError: Slurm does not answer.
        """
        # ReFrame 4.9 knows neither another command nor the reasons of several jobs.
        squeue = getattr(self, "_squeue", "squeue")
        command = f"{squeue} -h -t all -j {','.join(job.jobid for job in jobs)}"
        done = run_command(f'{command} -o "%i|%T|%N|%r"')
        if done.returncode != 0 and "Invalid job id" not in done.stderr:
            raise exceptions.SpawnedProcessError(command, done.stdout, done.stderr, done.returncode)
        lines: dict[str, list[Any]] = {}
        form = rf"^({self._jobid_patt})\|(?P<state>\S+)\|(?P<nodes>\S*)\|(?P<reason>.*)$"
        for match in re.finditer(form, done.stdout, re.MULTILINE):
            lines.setdefault(re.split(r"[_+]", match[1])[0], []).append(match)
        for job in jobs:
            if mine := lines.get(job.jobid):
                state = ",".join(match["state"] for match in mine)
                job._nodespec = ",".join(filter(None, (match["nodes"] for match in mine)))
            else:  # squeue has forgotten it, or does not know it yet
                end = self._end_of(job)
                state = end.state or ("CANCELLED" if job.is_cancelling else "COMPLETED")
                job.end = None if end.state else end
            # For ReFrame a job that was preempted waits; but none of ours is requeued.
            job._state = state.replace("PREEMPTED", "CANCELLED")
        reasons = {jobid: [match["reason"] for match in mine] for jobid, mine in lines.items()}
        if hasattr(slurm.SlurmJobScheduler, "cancel_many"):
            self._cancel_if_blocked(jobs, reasons)
            return
        for job in jobs:
            if reasons.get(job.jobid):
                self._cancel_if_blocked(job, reasons[job.jobid])

    def _watch(self, job: Any) -> None:
        now, limit = time.monotonic(), patience()
        kind = _kind(job.state)
        if job.kind != kind:
            job.kind, job.since = kind, now
        if kind == "ended":
            job.end = job.end or self._end_of(job, job.state)
            if job.end.nodes and not job._nodelist:
                hosts = run_command(f"scontrol show hostname {job.end.nodes}").stdout
                job._nodelist = hosts.splitlines()
            leash.tell("-", job.jobid)
            return
        here = now - job.since
        out_of_time = job.time_limit and kind == "running" and here > job.time_limit + limit
        waited = time.time() - job.submit_time
        if why := deadline.reached():
            self._end(job, f"cancelled: {why}")
        elif out_of_time:
            self._end(job, f"cancelled: it ran {here:.0f} s, its limit is {job.time_limit:.0f} s")
        elif kind == "pending" and job.max_pending_time and waited >= job.max_pending_time:
            self._end(job)
        elif job.cancelled:
            self.cancel_many([job])

        where = f" on {job._nodespec}" if job._nodespec else ""
        if job.cancelled and now - job.cancelled > limit:
            said = f" (scancel: {job.said})" if job.said else ""
            self._give_up(job, f"is {job.state}{where} {limit:.0f} s after scancel{said}")
        elif kind == "completing" and here > limit:
            self._give_up(job, f"is COMPLETING{where} for {here:.0f} s: its nodes do not get free")
        elif kind == "unknown" and self._silent is None and here > limit:
            self._give_up(job, f"is not known to Slurm after {here:.0f} s")

    def _end_of(self, job: Any, state: str = "") -> Ended:
        """How a job ended, by scontrol, and by sacct if that has forgotten it, or does not answer.

        :param state: its last state if neither knows it.
        """
        # With the names of the clusters, if there are several. ReFrame 4.9 knows none.
        clusters = getattr(self, "_squeue", "squeue").removeprefix("squeue")
        for program, query in QUERIES.items():
            with contextlib.suppress(OSError):  # there may be no sacct
                said = run_command(f"{program}{clusters} {query} {job.jobid}").stdout
                if (end := ended(job.jobid, said)).state:
                    return end
        return Ended(job.jobid, state, nodes=job._nodespec or "")

    def _give_up(self, job: Any, what: str) -> None:
        """Ends the job for ReFrame, and makes its case fail."""
        job.given_up, job.end = True, Ended(job.jobid, job.state, nodes=job._nodespec or "")
        before = f"{job.why}; " if job.why else ""
        job._exception = exceptions.JobError(f"{before}the job {what}; given up", job.jobid)

    def _end(self, job: Any, why: str = "") -> None:
        if why and not job.why:
            job.why = why
            job._exception = exceptions.JobError(why, job.jobid)
        self.cancel_many([job])

    def cancel(self, job: Any) -> None:
        self.cancel_many([job])

    def cancel_many(self, jobs: Any) -> None:
        """Cancels the jobs that were not cancelled a moment ago; never raises."""
        now = time.monotonic()
        for job in jobs:
            if self._dead or now < job.again:
                continue
            job.cancelled = job.cancelled or now
            job.again = now + job.pause
            job.pause *= 2
            try:
                run_command(f"scancel {job.jobid}", check=True)
            except exceptions.SpawnedProcessError as error:
                job.said = _what(error).removeprefix("scancel: ")
                self.log(f"scancel {job.jobid}: {job.said}")
            else:
                job.said = ""
                job._is_cancelling = True

    def finished(self, job: Any) -> bool:
        return bool(job.given_up or super().finished(job))

    def wait(self, job: Any) -> None:
        while not self.finished(job):
            self.poll(job)
            if not self.finished(job):
                time.sleep(PAUSE_S)
        if job.is_array:
            self._merge_files(job)

    def sbatch(self, args: list[str]) -> Any:
        # If a site names the errors after which to submit again, ReFrame submits again forever.
        if why := deadline.reached():
            raise exceptions.JobNotStartedError(f"not submitted: {why}")
        while True:
            began = time.monotonic()
            try:
                done = super().sbatch(args)
            except exceptions.SpawnedProcessError as error:
                # After one that was killed, a second one might submit a second job.
                if error.exitcode != TIMED_OUT and not SILENT.search(_what(error)):
                    raise
                self._unanswered(error, began)
                time.sleep(PAUSE_S)
            else:
                self._silent = None
                return done


class _BoundedSqueue(_Bounded, slurm.SqueueJobScheduler):  # type: ignore[misc]
    """Slurm without accounting."""


def _poll_local(self: Any, of_reframe: Any, *jobs: Any) -> None:
    of_reframe(self, *jobs)
    for job in jobs:
        running = job and job.jobid and not self.finished(job) and not job.cancel_time
        if running and (why := deadline.reached()):
            job._exception = exceptions.JobError(f"cancelled: {why}")
            self.cancel(job)


def install() -> None:
    slurm._run_strict = functools.partial(run_command, check=True)
    slurm.osext = SimpleNamespace(**{**vars(osext), "run_command": run_command})
    slurm._SlurmJob = _Job
    for name, bounded in (("slurm", _Bounded), ("squeue", _BoundedSqueue)):
        backends._schedulers[name] = (bounded, None)
    scheduler = local.LocalJobScheduler
    scheduler.poll = functools.partialmethod(_poll_local, scheduler.poll)
