"""Programs over UCX between GPUs: the stack decides the vendor, and the logs prove the path."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import run_after, run_before
from reframe.core.exceptions import ConfigError

import assay.gpu.node
from assay.declared import INTER
from assay.gpu import accelerator, gpu_health, gpu_paths
from assay.gpu.accelerator import Accelerator
from assay.gpu.gpu_paths import Sent
from assay.gpu.parse.nvidia_smi import Reading
from assay.parse import Parsed
from assay.prove import transports
from assay.run import ucx
from assay.run.site import misdescribed
from assay.run.ucx import UcxMixin

#: The script that prints the state of the GPUs, as it is named in the stage directory.
STATE = "gpu-state.sh"

#: Chooses the processors of two processes without MPI; gives each rank of an MPI its GPU.
SCRIPTS = Path(assay.gpu.node.__file__).parent
NEAR_CORES, RANK_GPU = SCRIPTS / "near-cores.sh", SCRIPTS / "rank-gpu.sh"

#: Variables by which launchers and MPI libraries bind no rank: the script binds it by its GPU.
UNBOUND = {
    "SLURM_CPU_BIND": "none",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",  # Open MPI 5
    "MV2_ENABLE_AFFINITY": "0",  # MVAPICH2 binds in MPI_Init, behind the script
}


class GpusOfNode(rfm.RegressionTestPlugin):
    """A test that takes the GPUs of its nodes. Name this mixin before the base class."""

    def gpus_of_a_node(self) -> int:
        """How many GPUs a node of the partition has; the case is skipped if nothing says it."""
        there = sum(each.num_devices for each in self.current_partition.select_devices("gpu"))
        self._undescribed(not there, "devices: the number of GPUs (type gpu) is missing")
        return int(there)

    def vendor_of_gpus(self) -> Accelerator | None:
        """The vendor of the GPUs of the partition; None if it has none, or those of several."""
        features = self.current_partition.features
        vendors = accelerator.vendors_of(features) or accelerator.built(
            self.current_environ.features
        )
        return vendors[0] if "gpu" in features and len(vendors) == 1 else None

    def take_gpus_to_read(self) -> None:
        """Requests all GPUs of a node: a job under Slurm does not see others."""
        if (vendor := self.vendor_of_gpus()) and vendor.state:
            self.num_gpus_per_node = self.gpus_of_a_node()

    def unfit_gpus(self, found: Mapping[str, Any]) -> list[str]:
        """What is wrong with the GPUs of a node, one line each.

        :param found: what :func:`assay.fleet.node.provenance.collect` found on it.
        """
        vendor = self.vendor_of_gpus()
        if vendor is None or not vendor.state:
            return []
        reading = gpu_health.parse_gpu_state(vendor, found.get("gpus") or "")
        partition = self.current_partition
        health = partition.extras.get("health", {})
        return gpu_health.unfit(vendor, reading, self.gpus_of_a_node(), partition.features, health)

    def take_gpus(self, wanted: int) -> None:
        """Requests `wanted` GPUs on each node; skips the case if a node has fewer."""
        there = self.gpus_of_a_node()
        why = f"{wanted} GPUs are needed on a node, {self.current_partition.name} has {there}"
        self.leave_out("too-small", wanted > there, why)
        self.num_gpus_per_node = wanted


class GpuState(GpusOfNode):
    """The state of the GPUs around each launch. Name this mixin before the base class."""

    #: Number of ranks that ``rank-gpu.sh`` starts.
    _ranks_by_gpu = 0

    @property
    def accelerator(self) -> Accelerator | None:
        """The vendor of the GPUs; the state of those of none is not read."""
        return self.vendor_of_gpus()

    @run_before("run")
    def _read_the_gpus(self) -> None:
        # Every launch shows whether the GPUs of its node were healthy, and stayed so.
        self.keep_files += [*gpu_health.FILES, gpu_health.OF_RANKS]
        vendor = self.accelerator
        if script := gpu_health.gpu_state_command(vendor) if vendor else "":
            (Path(self.stagedir) / STATE).write_text(script + "\n")
            read = f'timeout {gpu_health.PATIENCE} sh "$assay_stage"/{STATE}'
            before, after = (pattern.replace("*", "$(uname -n)") for pattern in gpu_health.FILES)
            self.prerun_cmds.append(f'{read} >"$assay_stage/{before}"')
            self.postrun_cmds.append(f'{read} >"$assay_stage/{after}"')

    @property
    def binding(self) -> str:
        """Who puts ranks beside their GPUs, ``suite`` or ``launcher``; else raises ConfigError."""
        said: str = self.current_partition.extras.get("binding", "suite")
        if said not in ("suite", "launcher"):
            why = f"extras: binding is {said!r}; write launcher, or leave it out"
            raise misdescribed(self.current_partition, why)
        return said

    def give_each_rank_its_gpu(self) -> None:
        """Starts the ranks by a script that gives each its GPU, and the processors near it."""
        if vendor := self.accelerator:
            if self.binding == "suite":
                self.env_vars |= UNBOUND
            shutil.copy(RANK_GPU, self.stagedir)
            (Path(self.stagedir) / "gpus.sh").write_text(vendor.for_ranks(self.binding))
            launcher, self._ranks_by_gpu = self.job.launcher, self.num_tasks
            launcher.options = [*launcher.options, f'"$assay_stage"/{RANK_GPU.name}']

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds processes far from their GPUs; keeps the state of those on the node of the job."""
        problems: list[str] = super().examine(parsed)
        vendor, host = self.accelerator, self._launched.host if self._launched else ""
        self._readings = before, after = [
            gpu_health.parse_gpu_state(vendor, ucx.text(pattern.replace("*", host)))
            if vendor
            else Reading()
            for pattern in gpu_health.FILES
        ]
        files = sorted(Path().glob(gpu_health.OF_RANKS))
        self._taken = [taken for path in files if (taken := gpu_health.taken(ucx.text(path)))]
        if self._taken and self._ranks_by_gpu:
            problems += gpu_health.without(self._taken, self._ranks_by_gpu)
        self.record.proof["state"] = gpu_health.record(before, after)
        remedy = "the job may use no processor near it: does it have its nodes alone?"
        if self.binding == "launcher":
            remedy = "the site leaves that to its launcher: remove the extra binding"
        return [*problems, *gpu_health.far(before, self._taken, host, remedy)]

    def _causes(self) -> list[str]:
        """Adds faults of the GPUs before, during and after the launch."""
        found: list[str] = super()._causes()
        vendor = self.accelerator
        if vendor and self._launched is not None:
            health = self.current_partition.extras.get("health", {})
            before, after = self._readings
            found += gpu_health.gpu_problems(vendor, before, after, health)
        return found


class GpuMixin(GpuState, UcxMixin):
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
    def _only_what_is_there(self) -> None:
        partition, stack = self.current_partition, self.current_environ
        there = accelerator.vendors_of(partition.features)
        why = accelerator.of_others(stack.name, [self.accelerator], partition.fullname, there)
        self.leave_out("not-here", there and self.accelerator not in there, why)
        way = self.way
        rdma = way.has_rdma or gpu_paths.CONFIGURATIONS[way.configuration].rdma
        why = f"the configuration {way.configuration} makes no difference over {way.over}"
        self.leave_out("no-case", way.place == INTER and not rdma, why)
        lacking = gpu_paths.lacking(way, stack.extras.get("ucx_lacks", ()))
        why = f"the UCX of the stack {stack.name} has no {', '.join(lacking)} (ucx_lacks)"
        self.leave_out("incomplete", lacking, why)

    def choose_the_path(self, device: str | None = None) -> None:
        """Makes UCX, and an MPI, use the paths of :attr:`way`, over `device` between nodes.

        :raises reframe.core.exceptions.ConfigError: the switches of this UCX are not known.
        """
        try:
            variables = gpu_paths.gpu_path_variables(self.way, self._ucx_version(), device)
        except ValueError as error:
            raise ConfigError(f"{self.current_environ.name}: {error}") from None
        self._steer_ucx(variables)

    def shows_buffers(self) -> bool:
        """Whether the log of this UCX says in which memory the buffers were."""
        return gpu_paths.known(self.accelerator, self._ucx_version()) >= transports.TABLES_SINCE

    def near_cores(self) -> str:
        """A shell line that makes ``$1`` and ``$2`` processors near the GPUs of two processes."""
        shutil.copy(NEAR_CORES, self.stagedir)
        before = gpu_health.FILES[0].replace("*", "$(uname -n)")
        return (
            f'set -- $("$assay_stage"/{NEAR_CORES.name} "$assay_stage/{before}" '
            f'"${self.accelerator.visible}" "$@")'
        )

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds processes that used another GPU than theirs."""
        problems: list[str] = super().examine(parsed)
        self.record.proof["gpus"] = [[*taken[:4]] for taken in self._taken]
        if self.way.has_rdma and gpu_paths.CONFIGURATIONS[self.way.configuration].rdma:
            problems += gpu_health.unreachable(self.accelerator, self._taken)
            self.record.proof["rdma"] = {taken.host: taken.rdma for taken in self._taken}
        return [*problems, *gpu_health.others(self.accelerator, ucx.said(Path()), self._taken)]

    def path_problems(self, sent: Sent, said: str, processes: int) -> list[str]:
        """Problems of the path of the last launch; the record gets what was proven.

        Call it after :meth:`examine`.

        :param said: standard error of all processes.
        """
        log = ucx.said(Path())
        proof = gpu_paths.prove_gpu_paths(self.way, log, sent, self._ucx_that_ran(log), processes)
        between = " and ".join(sorted({taken.uuid for taken in self._taken}))
        record = self.record.proof
        record.update(means=proof.means, ucx=proof.ucx, lanes=dict(proof.lanes))
        problems = [
            f"{problem}, between {between}" if between and self.accelerator.ipc in problem
            else problem for problem in proof.problems
        ]  # fmt: skip
        if self.accelerator.small:
            record["gdrcopy"], wrong = gpu_paths.gdrcopy(self.way, said)
            problems += wrong
        return problems
