"""The GPUs of a vendor: everything in which one vendor differs from another, in one place.

AMD's (``rocm``) are not yet run on hardware, and their health is not read: no output was seen yet.
For ROCm, all comes from the sources of UCX (v1.13.1 to v1.22.0, src/uct/rocm, the aliases in
src/ucp/core/ucp_context.c, and src/ucs/memory/memory_type.c for ``-m`` of ucx_perftest), of OSU 5.7
(util/osu_util.c for its option ``-d``), Open MPI (v5.0.10) and rocminfo (rocminfo.cc), and from the
page "GPU isolation techniques" of AMD's documentation. UCX uses the runtime ROCr and not HIP, so
only ROCR_VISIBLE_DEVICES means the same to UCX as to the program. HIP_VISIBLE_DEVICES and others
number the GPUs of ROCR_VISIBLE_DEVICES once more, for HIP alone (gres.conf(5) of Slurm calls this a
known issue). The number of a rank's GPU is then not known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from assay.parse import hpl
from assay.workloads.osu import numbers


@dataclass(frozen=True)
class Accelerator:
    """The GPUs of one vendor, and the software by which programs use them.

    :ivar word: its name: a feature of partitions (``cuda``), the end of features of stacks
        (``osu-cuda``, ``ucx-cuda``), and the name that OSU and UCX use.
    :ivar vendor: who makes the GPUs.
    :ivar small: the transport of UCX for small messages, empty if there is no separate one.
    :ivar log: variables that make the software below UCX log what it does.
    :ivar ucx: first and last generation of UCX with known switches.
    :ivar visible: the variable with the GPUs that a process sees, as numbers or as UUIDs.
    :ivar uuids: shell command that prints the UUID of each GPU of the node, one per line.
    :ivar state: part of a reading of all GPUs of a node -> shell command. ``{fields}`` stands for
        the fields that ``counters.yaml`` has, ``{load}`` for Python that initialises
        :attr:`driver`. Empty if the state is not read.
    :ivar driver: the library of the driver, and its function that initialises it.
    :ivar renumbering: variables that number the visible GPUs once more, for the program alone.
    :ivar listing: command whose output names the models of the GPUs of this machine.
    :ivar model: regular expression whose first group is a model in that output.
    :ivar library: the library that programs for these GPUs are linked to.
    :ivar device: the device file that shows the driver.
    :ivar container: the option by which Apptainer passes the driver to a container.
    :ivar reduces_since: first Open MPI that can reduce in the memory of these GPUs.
    :ivar hpl: the HPL for these GPUs, as :mod:`assay.parse.hpl` names it; empty if none is known.
    :ivar unproven: why no run on these GPUs can pass yet, empty if it can.
    """

    word: str
    vendor: str
    visible: str
    uuids: str
    listing: Sequence[str]
    model: str
    library: str
    device: str
    container: str
    small: str = ""
    log: Mapping[str, str] = field(default_factory=dict)
    ucx: tuple[tuple[int, int], tuple[int, int]] = ((1, 13), (1, 22))
    state: Mapping[str, str] = field(default_factory=dict)
    driver: tuple[str, str] = ("", "")
    renumbering: Sequence[str] = ()
    reduces_since: tuple[int, int] = (0, 0)
    hpl: str = ""
    unproven: str = ""

    @property
    def copy(self) -> str:
        """The transport of UCX that knows which pointers belong to a GPU."""
        return f"{self.word}_copy"

    @property
    def ipc(self) -> str:
        """The transport of UCX between processes of one node, from GPU to GPU."""
        return f"{self.word}_ipc"

    @property
    def silence(self) -> str:
        """Why ``rank-gpu.sh`` may not know the GPU of a rank."""
        said = f"{self.listing[0]} printed no UUID on that node"
        return said + "".join(f", or {name} is set" for name in self.renumbering)

    def restricted(self, number: int, refused: str) -> list[str]:
        """Shell lines that leave `number` GPUs visible, of those of the scheduler or else of all.

        :param refused: the file that gets the reason if there are fewer.
        """
        return [
            f"gpus=${{{self.visible}:-$({self.uuids} | paste -s -d ,)}}",
            f'export {self.visible}=$(echo "$gpus" | cut -d , -f 1-{number})',
            f"if [ $(echo ${self.visible} | tr , ' ' | wc -w) -ne {number} ]; then",
            f'  echo "{number} GPUs are needed, the job sees: ${{gpus:-none}}" >{refused}',
            "  exit 1",
            "fi",
        ]

    def for_ranks(self) -> str:
        """What ``rank-gpu.sh`` has to know, as a shell script that it reads."""
        return (
            f"visible={self.visible}\n"
            f"renumbering='{' '.join(self.renumbering)}'\n"
            f"uuids() {{ {self.uuids}; }}\n"
        )

    def found(self, said: str) -> list[str]:
        """The GPUs in an output of :attr:`listing`, as it names them."""
        return re.findall(self.model, said, re.MULTILINE)


CUDA = Accelerator(
    word="cuda",
    vendor="NVIDIA",
    visible="CUDA_VISIBLE_DEVICES",
    uuids="nvidia-smi --query-gpu=uuid --format=csv,noheader",
    driver=("libcuda.so.1", "cuInit"),
    state={
        "gpu uuid,pci.bus_id,{fields}": (
            "nvidia-smi --query-gpu=uuid,pci.bus_id,{fields} --format=csv,noheader,nounits"
        ),
        "rows gpu_uuid,{fields}": (
            "nvidia-smi --query-remapped-rows=gpu_uuid,{fields} --format=csv,noheader,nounits"
        ),
        "nvlink": "nvidia-smi nvlink -e",
        "driver": "{load}",
        "topology": "nvidia-smi topo -m",
        "peers": "nvidia-smi topo -p2p r",
        # Only an administrator may read it on many machines; dmesg then says so.
        "kernel": "dmesg 2>&1 | grep -e 'NVRM: Xid' -e 'dmesg: '",
    },
    listing=("nvidia-smi", "-L"),
    model=r"^GPU \d+: (.+?) \(UUID",
    library="libcuda",
    device="/dev/nvidiactl",
    container="--nv",
    small="gdr_copy",
    # libgdrapi logs to standard error. It reads its level only if logging is on.
    log={"GDRCOPY_ENABLE_LOGGING": "1", "GDRCOPY_LOG_LEVEL": "1"},
    hpl=hpl.NVIDIA,
)

ROCM = Accelerator(
    word="rocm",
    vendor="AMD",
    visible="ROCR_VISIBLE_DEVICES",
    # rocminfo lists what the variable leaves visible. A GPU without a UUID is GPU-XX.
    uuids="env -u ROCR_VISIBLE_DEVICES rocminfo | awk '/^ *Uuid: *GPU-/ { print $2 }'",
    renumbering=("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    listing=("rocminfo",),
    model=r"^ *Uuid: *GPU-\S+ *\n *Marketing Name: *(.*?) *$",
    library="libamdhip64",
    device="/dev/kfd",
    container="--rocm",
    # 1.13 has rocm_gdr, which 1.14 has removed (NEWS of v1.14.0).
    ucx=((1, 14), (1, 22)),
    # Up to 5.0, coll/cuda copies to the host before it reduces; it is built with CUDA only. The
    # component coll/accelerator of 6.0 takes its place (ompi/mca/coll).
    reduces_since=(6, 0),
    unproven=(
        "no log of UCX on a GPU of AMD was seen yet, so nothing proves the path: compare the logs "
        "of this case with gpu/gpu_paths.py, then empty `unproven` of ROCM"
    ),
)

#: The vendors, by their words.
ACCELERATORS: Mapping[str, Accelerator] = {each.word: each for each in (CUDA, ROCM)}


def vendors_of(features: Collection[str]) -> list[Accelerator]:
    """The vendors of the GPUs of a partition, as far as its features say."""
    return [each for word, each in ACCELERATORS.items() if word in features]


def built(features: Collection[str]) -> list[Accelerator]:
    """The vendors for whose GPUs a stack has built any program, by its features."""
    words = {feature.rpartition("-")[2] for feature in features}
    return vendors_of(words)


def of_others(
    stack: str, built: Sequence[Accelerator], place: str, there: Sequence[Accelerator]
) -> str:
    """Why a stack does not run on a partition: it is built for the GPUs of another vendor."""
    vendors, others = (" and ".join(gpu.vendor for gpu in gpus) for gpus in (built, there))
    return f"the stack {stack} is built for GPUs of {vendors}; {place} has those of {others}"


def of_stack(features: Collection[str], program: str) -> Accelerator:
    """The vendor for whose GPUs a stack has built a program.

    :param program: ``osu`` or ``ucx``; the feature is ``osu-cuda``, for instance.
    :raises ValueError: the stack has not built it for any GPU.
    """
    for word, each in ACCELERATORS.items():
        if f"{program}-{word}" in features:
            return each
    words = " or ".join(f"{program}-{word}" for word in ACCELERATORS)
    raise ValueError(f"the stack has no {words}")


def cannot_reduce(version: str | None, gpu: Accelerator) -> str:
    """Why an Open MPI of this stated version may not reduce on these GPUs; else empty."""
    if numbers(version or "0.0")[:2] >= gpu.reduces_since:
        return ""
    since = f"{'.'.join(map(str, gpu.reduces_since))} can reduce in the memory of GPUs"
    if version is None:
        return f"this stack does not say which Open MPI it has (openmpi_version): {since}"
    return f"Open MPI {version} cannot reduce in the memory of GPUs of {gpu.vendor}: {since}"
