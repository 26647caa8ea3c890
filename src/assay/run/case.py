"""One test case: the keys to look it up by, where it ran, and its record on disk."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

import reframe as rfm
from reframe.core import runtime
from reframe.core.exceptions import PerformanceError, SanityError

from assay import accused
from assay.judge import Verdict
from assay.prove import plan, steering
from assay.reframe_compat import testcase
from assay.run import attempts
from assay.store import record


class CaseBase(rfm.RegressionTestPlugin):
    """The part of :class:`assay.run.strict.StrictCheck` that all its phases use."""

    _record: dict[str, Any]
    _attempts: attempts.Attempts
    _nonce: str = ""

    #: The settings that are the machine's own, as far as the job script saw them.
    _machine: plan.Machine = plan.Machine()

    @property
    def _hosts(self) -> list[str]:
        """Hosts of the job, as far as the scheduler named them; read after the job has ended."""
        # ReFrame 4.10.4 asks Slurm for the hosts of "None" if it never saw the job running.
        return [name for name in self.job.nodelist or () if name != "None"]

    def identity(self) -> dict[str, Any]:
        """The test and its parameters, independent of where it runs."""
        parameters = {name: getattr(self, name) for name in testcase.parameters(type(self))}
        return {"test": type(self).__name__.split("_")[0], **parameters}

    def _keys(self) -> dict[str, Any]:
        """The keys by which the site's references are looked up."""
        return {
            "system": self.current_system.name, "partition": self.current_partition.name,
            "environ": self.current_environ.name, "profile": self.profile, **self.identity(),
        }  # fmt: skip

    def _requested_variables(self) -> dict[str, str]:
        """The environment variables that partition, stack and test set for a launch."""
        places = (self.current_partition.local_env, self.current_environ, self)
        return {name: str(value) for of in places for name, value in of.env_vars.items()}

    @property
    def _of_modules(self) -> bool:
        """Whether the programs come from modules of the site, and from no lock or image.

        Which versions and libraries they have is then read from the run.
        """
        partition, stack = self.current_partition, self.current_environ
        fixed = "image" in stack.extras or "sha256" in stack.extras.get("provenance", "")
        loaded = any(each.modules for each in self._environs)
        return not fixed and bool(loaded or partition.prepare_cmds or stack.prepare_cmds)

    @property
    def _environs(self) -> tuple[Any, ...]:
        """The environments of the site that a job has, in the order of their loading."""
        system = runtime.runtime().system.preload_environ
        return system, self.current_partition.local_env, self.current_environ

    def _given(self) -> dict[str, str]:
        """The environment of this process without what belongs to the site.

        ReFrame loads the modules and variables of a system into it. A person may have loaded
        modules that the site names, or found them loaded at login.
        """
        modules, of_system = runtime.runtime().modules_system, self._environs[0].env_vars
        named = [each for environ in self._environs for each in environ.modules_detailed]
        with runtime.temp_environment():
            for module in reversed(named):
                if modules.is_module_loaded(module["name"]):
                    modules.unload_module(**module)
            return {name: it for name, it in os.environ.items() if name not in of_system}

    def _foreign(
        self, libraries: Collection[str], node: steering.Node, ranks: Sequence[steering.Steering]
    ) -> list[str]:
        """Libraries of MPI and UCX that are not of this stack, one line each."""
        own = steering.own_libraries(self.current_environ.extras, self._requested_variables())
        if not self._of_modules:
            return steering.foreign(libraries, node.programs, own)
        own += self._machine.variables.get(steering.SEARCHED, "").split(":")
        directories = steering.searched([node.job, *ranks])
        return steering.foreign(libraries, node.programs, filter(None, own), directories)

    def _close_record(
        self, verdict: Verdict | None, problems: list[str], against: Sequence[str] | None = None
    ) -> None:
        """Writes the record; `against` are the lines that `problems` was put together from."""
        self._record.update(
            verdict=verdict.value if verdict else None,
            problems=problems,
            accused=accused.of(problems if against is None else against),
        )
        record.write(Path(self.stagedir) / record.FILE, self._record)

    def _refuse(self, problems: Sequence[str]) -> NoReturn:
        """Fails for good: another attempt would find the same."""
        failure = SanityError("; ".join(problems))
        self._attempts.settle(failure)
        raise failure

    def _fail(self, problems: list[str]) -> None:
        self._close_record(Verdict.FAIL, problems)
        failure = PerformanceError("; ".join(problems))
        self._attempts.settle(failure)
        raise failure
