"""The GPUs of a vendor, and the software by which programs use them: ``accelerators.yaml``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace
from reframe.core.exceptions import ConfigError

from assay import files
from assay.workloads.osu import numbers


class Releases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Releases of an HPL for the GPUs of one generation; the file says what the keys mean."""

    first: str
    block: int
    source: str
    last: str = ""


class Accelerator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The GPUs of a vendor; ``accelerators.yaml`` says what the keys mean. Its word is its key."""

    vendor: str
    visible: str
    uuids: str
    listing: tuple[str, ...]
    model: str
    library: str
    device: str
    container: str
    ucx: tuple[tuple[int, int], tuple[int, int]]
    word: str = ""
    small: str = ""
    log: dict[str, str] = {}
    state: dict[str, str] = {}
    driver: tuple[str, str] = ("", "")
    peer_memory: tuple[str, ...] = ()
    kernel_module: str = ""
    renumbering: tuple[str, ...] = ()
    reduces_since: tuple[int, int] = (0, 0)
    hpl: str = ""
    hpl_releases: dict[str, Releases] = {}
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
            f"gpus=${{{self.visible}:-$({self.uuids} | grep -o '^GPU-[^, ]*' | paste -s -d ,)}}",
            f'export {self.visible}=$(echo "$gpus" | cut -d , -f 1-{number})',
            f"if [ $(echo ${self.visible} | tr , ' ' | wc -w) -ne {number} ]; then",
            f'  echo "{number} GPUs are needed, the job sees: ${{gpus:-none}}" >{refused}',
            "  exit 1",
            "fi",
        ]

    def for_ranks(self, binding: str) -> str:
        """What ``rank-gpu.sh`` has to know, and who binds: ``suite`` or ``launcher``."""
        words = {
            "visible": self.visible, "renumbering": " ".join(self.renumbering), "binding": binding,
            "peer_memory": " ".join(self.peer_memory), "kernel_module": self.kernel_module,
        }  # fmt: skip
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in words.items()]
        return "".join([*lines, f"uuids() {{ {self.uuids}; }}\n"])

    def releases_of(self, gpu: str) -> Releases | None:
        """Those of its HPL for a GPU, by its name in ``site-config/hardware``; None if unknown."""
        known = self.hpl_releases.items()
        return next((its for name, its in known if re.match(rf"({name})\b", gpu)), None)

    def hpl_does_not_run(self, gpu: str, release: str) -> str:
        """Why a release of its HPL does not run on a GPU; empty if it may, or nobody knows."""
        its = self.releases_of(gpu)
        last = (its.last if its else "") or release
        if not (its and release) or numbers(its.first) <= numbers(release) <= numbers(last):
            return ""
        known = its.first if its.first == its.last else f"{its.first} or newer"
        return f"release {release} does not run on {gpu}: take {known}"

    def found(self, said: str) -> list[str]:
        """The GPUs in an output of :attr:`listing`, as it names them."""
        return re.findall(self.model, said, re.MULTILINE)


#: The vendors, by their words.
ACCELERATORS: Mapping[str, Accelerator] = {
    word: replace(each, word=word)
    for word, each in files.read_shape(
        Path(__file__).with_name("accelerators.yaml"), dict[str, Accelerator], ConfigError
    ).items()
}
CUDA, ROCM = (ACCELERATORS[word] for word in ("cuda", "rocm"))


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
