"""The figures that a test case belongs to, as its test declares them.

A test declares them in ``figures``. The record and the plan of the session keep them, so that the
report knows them for every case, measured or not. The report draws by them and names no test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import asdict

#: How a figure is drawn; docs/adding-a-benchmark.md says what each kind needs of an output.
KINDS = ("curve", "collective", "heat map", "scaling", "runs", "partitions", "lines")

#: What the report replaces in `at`: ``in a node`` or ``between nodes``, and the partition.
PLACE, PARTITION = "{place}", "{partition}"

INTRA, INTER = "intra-node", "inter-node"

#: The configurations of GPU memory, named by what is off (:mod:`assay.gpu.gpu_paths`) -> where each
#: differs from the others. "all" is what a user gets.
CONFIGURATIONS: Mapping[str, tuple[str, ...]] = {
    "all": (INTRA, INTER),
    "no-gdrcopy": (INTRA, INTER),
    "no-ipc": (INTRA,),
    "no-ipc-no-gdrcopy": (INTRA,),
    "no-rdma": (INTER,),
    "no-rdma-no-gdrcopy": (INTER,),
}

#: What tests of messages between nodes prove, each by its metrics: a slow link may have the time of
#: small messages of a good one.
OF_NETWORK = {
    "latency": "latency_(8B|median)",
    "rate": r".*(latency|bandwidth)_(\d+MiB|worst)|bandwidth_median",
}


class Figure(msgspec.Struct, frozen=True):
    """One figure that the case is a part of.

    :ivar kind: one of :data:`KINDS`.
    :ivar name: its name in the document that the report compares with; "" if it is not in there.
    :ivar column: the column of the output that a heat map or `lines` show.
    :ivar over: the column of the output over which `lines` show it.
    """

    kind: str
    name: str = ""
    at: str = ""
    column: str = ""
    over: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"figures: unknown kind {self.kind!r}; known are {', '.join(KINDS)}")

    def __rfm_json_encode__(self) -> dict[str, str]:
        """What ReFrame's ``--describe`` prints of a figure."""
        return asdict(self)

    def where(self, partition: str, place: str = "") -> str:
        """Its place for a case on a partition, with `place` in a node or between nodes."""
        return self.at.replace(PLACE, place).replace(PARTITION, partition)


def as_json(figures: Iterable[Figure]) -> list[dict[str, str]]:
    """Figures as a record and a plan keep them."""
    return [asdict(figure) for figure in figures]


def proven_by(proves: Mapping[str, str], metrics: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The metrics of a test that would show a fault, by what is at fault, as a record keeps them.

    :param proves: what is at fault -> a pattern of metrics, as a test declares them.
    """
    names = [*metrics]
    return {
        what: tuple(name for name in names if re.fullmatch(pattern, name))
        for what, pattern in proves.items()
    }
