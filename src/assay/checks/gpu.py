"""Programs over UCX between GPUs: the stack decides the vendor, and the logs prove the path."""

from __future__ import annotations

from pathlib import Path

from reframe.core.builtins import run_after
from reframe.core.exceptions import ConfigError

from assay.checks import ucx
from assay.checks.ucx import UcxMixin
from assay.evidence import accelerator, gpu_paths
from assay.evidence.accelerator import Accelerator
from assay.evidence.gpu_ipc import Sent


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
        self.skip_if(
            bool(there) and self.accelerator not in there,
            accelerator.of_others(stack.name, [self.accelerator], partition.fullname, there),
        )

    @run_after("setup")
    def _only_what_the_network_can_switch(self) -> None:
        way = self.way
        self.skip_if(
            way.place == gpu_paths.INTER
            and not (way.has_rdma or gpu_paths.CONFIGURATIONS[way.configuration].rdma),
            f"the configuration {way.configuration} makes no difference over {way.over}",
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

    def path_problems(self, sent: Sent, said: str, processes: int) -> list[str]:
        """Problems of the path of the last launch; the record gets what was proven.

        :param said: standard error of all processes.
        """
        log, version = ucx.said(Path()), self.current_environ.extras["ucx_version"]
        proof = gpu_paths.prove(self.way, log, sent, version, processes)
        record = self._record.setdefault("proof", {})
        record.update(means=proof.means, ucx=proof.ucx, lanes=dict(proof.lanes))
        problems = list(proof.problems)
        if self.accelerator.small:
            gdrcopy = gpu_paths.gdrcopy(self.way, said)
            record["gdrcopy"] = gdrcopy.said
            problems += gdrcopy.problems
        return problems
