"""Programs over UCX between GPUs: the stack decides the vendor, and the logs prove the path."""

from __future__ import annotations

import shutil
from pathlib import Path

from reframe.core.builtins import run_after, run_before
from reframe.core.exceptions import ConfigError

import assay.node
from assay.parse import Parsed
from assay.prove import accelerator, gpu_health, gpu_paths
from assay.prove.accelerator import Accelerator
from assay.prove.gpu_paths import Sent
from assay.run import ucx
from assay.run.ucx import UcxMixin

#: The script that prints the state of the GPUs, as it is named in the stage directory.
STATE = "gpu-state.sh"

#: Chooses the processors of two processes without MPI.
NEAR_CORES = Path(assay.node.__file__).with_name("near-cores.sh")


class GpuMixin(UcxMixin):
    """A program over UCX between GPUs. Name this mixin before the base class of the test."""

    #: The program that the stack must have built for GPUs: ``osu`` or ``ucx``.
    built = ""

    def on_stacks_with(self, *features: str) -> None:
        """Selects the stacks that have the program for GPUs on which the configuration matters."""
        self.valid_prog_environs = [
            " ".join(f"+{word}" for word in (f"{self.built}-{gpu.word}", *features))
            for gpu in gpu_paths.with_configuration(self.configuration)
        ]

    @property
    def way(self) -> gpu_paths.Way:
        """The configuration, the place where it is measured, and the GPUs."""
        raise NotImplementedError

    @property
    def over(self) -> str:
        """What carries messages between the nodes of the partition."""
        return gpu_paths.TCP if "ethernet" in self.current_partition.features else gpu_paths.RC

    @property
    def accelerator(self) -> Accelerator:
        """The vendor of the GPUs, by the features of the stack."""
        return accelerator.of_stack(self.current_environ.features, self.built)

    @run_after("setup")
    def _gpus_of_that_vendor(self) -> None:
        partition, stack = self.current_partition, self.current_environ
        there = accelerator.named(partition.features)
        self.leave_out(
            "not-here",
            bool(there) and self.accelerator not in there,
            accelerator.of_others(stack.name, [self.accelerator], partition.fullname, there),
        )

    @run_after("setup")
    def _only_what_the_network_can_switch(self) -> None:
        way = self.way
        self.leave_out(
            "no-case",
            way.place == gpu_paths.INTER
            and not (way.has_rdma or gpu_paths.CONFIGURATIONS[way.configuration].rdma),
            f"the configuration {way.configuration} makes no difference over {way.over}",
        )

    @run_after("setup")
    def _only_what_this_ucx_has(self) -> None:
        stack = self.current_environ
        lacking = gpu_paths.lacking(self.way, stack.extras.get("ucx_lacks", ()))
        self.leave_out(
            "incomplete",
            bool(lacking),
            f"the UCX of the stack {stack.name} has no {', '.join(lacking)} (ucx_lacks)",
        )

    def choose_the_path(self, device: str | None = None) -> None:
        """Makes UCX use the paths of :attr:`way`, over `device` between nodes.

        :raises reframe.core.exceptions.ConfigError: the switches of this UCX are not known.
        """
        version = self.ucx_version()
        try:
            variables = gpu_paths.environment(self.way, version, device)
        except ValueError as error:
            raise ConfigError(f"{self.current_environ.name}: {error}") from None
        self.steer_ucx(variables)

    @run_before("run")
    def _read_the_gpus(self) -> None:
        # Every launch shows whether the GPUs of its node were healthy, and stayed so.
        self.keep_files += [*gpu_health.FILES, gpu_health.OF_RANKS]
        if script := gpu_health.command(self.accelerator):
            (Path(self.stagedir) / STATE).write_text(script + "\n")
            read = f'timeout {gpu_health.PATIENCE} sh "$assay_stage"/{STATE}'
            before, after = (pattern.replace("*", "$(uname -n)") for pattern in gpu_health.FILES)
            self.prerun_cmds.append(f'{read} >"$assay_stage/{before}"')
            self.postrun_cmds.append(f'{read} >"$assay_stage/{after}"')

    def near_cores(self) -> str:
        """A shell line that makes ``$1`` and ``$2`` processors near the GPUs of two processes."""
        shutil.copy(NEAR_CORES, self.stagedir)
        before = gpu_health.FILES[0].replace("*", "$(uname -n)")
        return (
            f'set -- $("$assay_stage"/{NEAR_CORES.name} "$assay_stage/{before}" '
            f'"${self.accelerator.visible}" "$@")'
        )

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds processes that used another GPU than theirs, or are far from it."""
        problems: list[str] = super().examine(parsed)
        gpu, host = self.accelerator, self.launched.host if self.launched else ""
        self._readings = before, after = [
            gpu_health.parse(gpu, ucx.text(pattern.replace("*", host)))
            for pattern in gpu_health.FILES
        ]
        files = sorted(Path().glob(gpu_health.OF_RANKS))
        self._taken = [taken for path in files if (taken := gpu_health.taken(ucx.text(path)))]
        here = [taken for taken in self._taken if taken.host == host]
        proof = self._record.setdefault("proof", {})
        proof["gpus"] = [taken.words() for taken in self._taken]
        proof["state"] = gpu_health.record(before, after)
        return [
            *problems, *gpu_health.far(before, here),
            *gpu_health.others(gpu, ucx.said(Path()), self._taken),
        ]  # fmt: skip

    def causes(self) -> list[str]:
        """Adds faults of the GPUs before, during and after the launch."""
        found: list[str] = super().causes()
        if self.launched is not None:
            health = self.current_partition.extras.get("health", {})
            before, after = self._readings
            found += gpu_health.problems(self.accelerator, before, after, health)
        return found

    def path_problems(self, sent: Sent, said: str, processes: int) -> list[str]:
        """Problems of the path of the last launch; the record gets what was proven.

        Call it after :meth:`examine`.

        :param said: standard error of all processes.
        """
        log = ucx.said(Path())
        version = self.ucx_that_ran(log)
        proof = gpu_paths.prove(self.way, log, sent, version, processes)
        between = " and ".join(sorted({taken.uuid for taken in self._taken}))
        record = self._record.setdefault("proof", {})
        record.update(means=proof.means, ucx=proof.ucx, lanes=dict(proof.lanes))
        problems = [
            f"{problem}, between {between}" if between and self.accelerator.ipc in problem
            else problem for problem in proof.problems
        ]  # fmt: skip
        if self.accelerator.small:
            gdrcopy = gpu_paths.gdrcopy(self.way, said)
            record["gdrcopy"] = gdrcopy.said
            problems += gdrcopy.problems
        return problems
