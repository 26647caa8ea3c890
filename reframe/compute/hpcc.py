"""HPC Challenge: HPL, DGEMM, STREAM, PTRANS, RandomAccess, FFT and ring tests in one MPI world.

Tests:     Hpcc
Runs:      hpcc
Where:     +intra-node, or +inter-node
Stacks:    +hpcc
Proves:    exit code 0 and a complete output; one world of the ranks asked for; a pass clears
           processor and memory
Judged by: references of hpl [GFLOP/s], dgemm_star [GFLOP/s], stream_copy_star [GB/s],
           stream_triad_star [GB/s], ptrans [GB/s], and 9 more; the peak of each
Takes:     6 s a case (smoke, 2 cores); 2 min a case (full, 2 cores); at most 120 min for a
           launch; in the smoke profile: 1 of 1 cases

N, NB and P x Q follow from the memory and the cores of the partition. The test reports HPL as a
percentage of the DGEMM that the same run measured. This ratio does not depend on other load on the
machine.
"""

from pathlib import Path

import reframe as rfm

from assay import metrics
from assay.parse import Quantity, hpcc
from assay.run import Peak
from assay.run.linpack import LinpackCheck
from assay.run.site import hardware_peaks
from assay.workloads import hpl_input
from assay.workloads.sizing import usable_ranks

#: metric -> (name in HPCC's summary, unit)
METRICS = {
    "hpl": ("HPL_Tflops", "GFLOP/s"),
    "dgemm_star": ("StarDGEMM_Gflops", "GFLOP/s"),
    "stream_copy_star": ("StarSTREAM_Copy", "GB/s"),
    "stream_triad_star": ("StarSTREAM_Triad", "GB/s"),
    "ptrans": ("PTRANS_GBs", "GB/s"),
    "random_access": ("MPIRandomAccess_GUPs", "GUP/s"),
    "fft": ("MPIFFT_Gflops", "GFLOP/s"),
    "ring_latency": ("RandomlyOrderedRingLatency_usec", "us"),
    "ring_bandwidth": ("RandomlyOrderedRingBandwidth_GBytes", "GB/s"),
}

#: What one rank measured while the others waited.
ALONE = ("DGEMM_Gflops", "STREAM_Copy")

#: Ratios in one run, of which each has bounds on any machine.
RATIOS = (
    "hpl_per_dgemm",
    "dgemm_star_per_single",
    "stream_star_per_single",
    "stream_copy_per_triad",
    "ring_bandwidth_per_stream_copy",
)


class HpccBase(LinpackCheck):
    """All of HPCC, sized from the memory of the nodes."""

    time_limit = "2h"
    valid_prog_environs = ["+hpcc"]
    executable = "hpcc"
    input_name = "hpccinf.txt"
    block = 128
    declares = {
        **{metric: unit for metric, (_, unit) in METRICS.items()},
        **dict.fromkeys(RATIOS, "1"),
    }
    keep_files = ["hpccoutf.txt"]

    def ranks_on(self, cores):
        return ranks_on(cores)

    def input_text(self, orders, grid):
        return hpl_input.hpl(orders, [self.block], grid, device=8)

    def read(self):
        return hpcc.parse_hpcc(Path("hpccoutf.txt").read_text(errors="replace"))

    def requested(self):
        (problem,) = self.asked
        named = {"n": "HPL_N", "nb": "HPL_NB", "p": "HPL_nprow", "q": "HPL_npcol"}
        return {"program": "hpcc", **{name: problem[key] for key, name in named.items()}}

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        rows = parsed.facts["hpl"]
        of_one_rank = ("StarDGEMM_Gflops", "SingleDGEMM_Gflops") if parsed.complete else ()
        for name in of_one_rank:
            problems += self.too_fast(printed(parsed, name).value, 1)
        return problems + hpl_input.otherwise(rows) + self.solved_as_asked(rows)

    def measure(self, parsed):
        values = {metric: printed(parsed, name) for metric, (name, _) in METRICS.items()}
        hpl = values["hpl"]  # in TFLOP/s, the other rates are in GFLOP/s
        values["hpl"] = Quantity(hpl.value * metrics.factor(hpl.unit, "GFLOP/s"), "GFLOP/s")
        dgemm, copy = values["dgemm_star"].value, values["stream_copy_star"].value
        alone = {name: printed(parsed, f"Single{name}").value for name in ALONE}
        return {
            **values,
            "hpl_per_dgemm": values["hpl"].value / (dgemm * self.num_tasks),
            "dgemm_star_per_single": dgemm / alone["DGEMM_Gflops"],
            "stream_star_per_single": copy / alone["STREAM_Copy"],
            "stream_copy_per_triad": copy / values["stream_triad_star"].value,
            "ring_bandwidth_per_stream_copy": values["ring_bandwidth"].value / copy,
        }

    def peaks(self, parsed):
        def value(name):
            return printed(parsed, name).value

        everywhere, alone = (
            f"on all {self.num_tasks} ranks, same run",
            "on one rank alone, same run",
        )
        # The parts of HPCC run one after the other: 51 runs on a busy machine reached 1.57.
        measured = {
            name: Peak(what, peak, most=2)
            for name, what, peak in (
                ("hpl", f"DGEMM {everywhere}", value("StarDGEMM_Gflops") * self.num_tasks),
                ("dgemm_star", f"DGEMM {alone}", value("SingleDGEMM_Gflops")),
                ("stream_copy_star", f"STREAM copy {alone}", value("SingleSTREAM_Copy")),
            )
        }
        of_rank = 1 / self._layout.per_node
        # HPCC chooses its vectors by N: a large cache may hold them.
        streams = ["stream_copy_star", "stream_triad_star"]
        return {
            **measured,
            **hardware_peaks(self, ["hpl"], "processor.fp64", self.num_tasks),
            **hardware_peaks(self, ["dgemm_star"], "processor.fp64"),
            **hardware_peaks(self, streams, "memory.bandwidth", of_rank, most=None),
        }


@rfm.simple_test
class Hpcc(HpccBase):
    """On all nodes of the partition."""

    descr = "HPC Challenge"
    tags = {"smoke", "compute"}
    proves = {"processor": "hpl|dgemm_star", "memory": "stream_copy_star"}


def printed(parsed, name):
    """A metric of HPCC's summary, with the unit that the summary gives."""
    (value,) = parsed.cells("value", metric=name)
    return Quantity(value, parsed.at("unit", metric=name))


def ranks_on(cores):
    return max(2, usable_ranks(cores))  # a single rank would measure no network
