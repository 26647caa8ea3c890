"""What all tests of the OSU Micro-Benchmarks share: the programs, their options and metrics.

The whole curve is kept. The metrics are its values at four sizes: 8 B (latency of the path), 8 KiB
(around the switch to rendezvous), 64 KiB and 1 MiB (bandwidth of the path).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assay.declared import Figure
from assay.parse import Parsed, Quantity, osu
from assay.workloads.sizing import even_ranks, usable_ranks

KIB, MIB = 1 << 10, 1 << 20
SIZES = {8: "8B", 8 * KIB: "8KiB", 64 * KIB: "64KiB", MIB: "1MiB"}


@dataclass(frozen=True)
class Benchmark:
    """One benchmark program.

    :ivar column: the measured column of :mod:`assay.parse.osu`, in `unit`.
    :ivar ranks: number of ranks that it takes on a given number of cores.
    """

    column: str
    unit: str
    ranks: Callable[[int], int]


POINT_TO_POINT: Mapping[str, Benchmark] = {
    "latency": Benchmark("latency", "us", lambda cores: 2),
    "bw": Benchmark("bandwidth", "MB/s", lambda cores: 2),
    "bibw": Benchmark("bandwidth", "MB/s", lambda cores: 2),
    "multi_lat": Benchmark("latency", "us", even_ranks),
    "mbw_mr": Benchmark("messages_per_s", "1/s", even_ranks),
}
COLLECTIVE: Mapping[str, Benchmark] = {
    name: Benchmark("latency", "us", lambda cores: max(2, usable_ranks(cores)))
    for name in ("bcast", "gather", "reduce", "allreduce", "alltoall")
}
BENCHMARKS: Mapping[str, Benchmark] = {**POINT_TO_POINT, **COLLECTIVE}

#: Those of two ranks.
PAIR = ("latency", "bw", "bibw")

#: Number of messages in flight, the default of both the C programs and the ports.
WINDOW = {"bw": 64, "bibw": 64, "mbw_mr": 64}

#: Fewest iterations that any program of either family does at any size by default
#: (BW_LOOP_LARGE, util/osu_util.h of OSU 5.7; loop_large, osu_bw.py of mpi4py 4.1.2).
FEWEST = 20

#: First version that validates what it received (-c), and first with a choice of type (-T).
VALIDATES, TYPES = (5, 9), (7, 1)

numbers = osu.numbers


def validating(benchmark: str, version: tuple[int, ...]) -> list[str]:
    """Options that make the C program of a version validate what it received, if it can."""
    options = ["-c"] if version >= VALIDATES else []
    if version >= TYPES and benchmark in ("reduce", "allreduce"):
        # Open MPI saturates sums of 8-bit integers (open-mpi/ompi issue 8045), and OSU 7.4
        # would rightly call that a failure.
        options += ["-T", "mpi_int"]
    return options


def not_validated(parsed: Parsed | None, stated: str | None) -> list[str]:
    """A problem if the program could have validated what it received and did not.

    :param stated: the version that the stack states. From it follows whether the program was asked.
    """
    if parsed is None or not parsed.rows or numbers(parsed.version) < VALIDATES:
        return []
    if numbers(stated) < VALIDATES:
        return [
            f"OSU {parsed.version} was not asked to validate what it received: the stack "
            f"states osu_version {stated or 'not at all'}"
        ]
    if "validates" not in parsed.facts:
        return [
            f"OSU {parsed.version} was asked to validate what it received (-c), and its table has "
            "no column Validation: does a wrapper of the program drop its options?"
        ]
    return []


def other_version(parsed: Parsed | None, stated: str | None) -> list[str]:
    """A problem if another version ran than the stack states, as far as it states one."""
    ran, wanted = numbers(parsed.version if parsed else None), numbers(stated)
    common = min(len(ran), len(wanted))
    if parsed is None or ran[:common] == wanted[:common]:
        return []
    return [
        f"OSU {parsed.version} ran, the stack states {stated} (osu_version): is another OSU first "
        "on PATH?"
    ]


def sizes_missing(parsed: Parsed | None, first: int = 0) -> list[str]:
    """A problem if the message sizes do not begin small; the parsers see that they double.

    Latencies begin at 0 B before version 7 of the C programs, and in the ports. Reductions begin
    at the size of one number: 4 B, or 1 B for MPI_CHAR.

    :param first: the first size that was asked for [B]; 0 if the program chose it.
    """
    if parsed is None or not parsed.complete:
        return []
    from_0 = parsed.program in ("osu_latency", "osu_multi_lat") and numbers(parsed.version) < (7,)
    reduces = parsed.program in ("osu_reduce", "osu_allreduce")
    size = int(parsed.rows[0]["size"])
    most = max(first, 4 if reduces else 0 if from_0 else 1)
    return [f"the first size is {size} B: rows are missing"] if size > most else []


def osu_figures(benchmark: str) -> list[Figure]:
    """How a benchmark is drawn, if otherwise than messages between two ranks."""
    return [Figure("collective")] if benchmark in COLLECTIVE else []


def osu_metrics(benchmark: str) -> dict[str, str]:
    """Metric -> unit, one for each size of :data:`SIZES`."""
    program = BENCHMARKS[benchmark]
    return {f"{program.column}_{label}": program.unit for label in SIZES.values()}


def values(benchmark: str, parsed: Parsed) -> dict[str, Quantity]:
    """The values of these metrics on a curve; :meth:`Parsed.quantity` raises for a missing size."""
    column = BENCHMARKS[benchmark].column
    return {f"{column}_{label}": parsed.quantity(column, size=n) for n, label in SIZES.items()}
