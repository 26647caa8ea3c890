"""HPC Challenge: HPL, DGEMM, STREAM, PTRANS, RandomAccess, FFT and ring tests in one world.

N, NB and P x Q come from the memory and the cores of the partition. HPL is a percentage of the
DGEMM that the same run measured: a ratio that holds whatever else the machine does.
"""

from pathlib import Path

import reframe as rfm

from assay.checks import hpl_input
from assay.checks.linpack import LinpackCheck
from assay.checks.strict import Peak
from assay.outputs import hpcc

#: metric -> (name in HPCC's summary, unit, factor to that unit)
METRICS = {
    "hpl": ("HPL_Tflops", "GFLOP/s", 1000),
    "dgemm_star": ("StarDGEMM_Gflops", "GFLOP/s", 1),
    "stream_copy_star": ("StarSTREAM_Copy", "GB/s", 1),
    "stream_triad_star": ("StarSTREAM_Triad", "GB/s", 1),
    "ptrans": ("PTRANS_GBs", "GB/s", 1),
    "random_access": ("MPIRandomAccess_GUPs", "GUP/s", 1),
    "fft": ("MPIFFT_Gflops", "GFLOP/s", 1),
    "ring_latency": ("RandomlyOrderedRingLatency_usec", "us", 1),
    "ring_bandwidth": ("RandomlyOrderedRingBandwidth_GBytes", "GB/s", 1),
}


@rfm.simple_test
class Hpcc(LinpackCheck):
    """All of HPCC on one node, sized from its memory."""

    descr = "HPC Challenge"
    time_limit = "2h"
    tags = {"smoke", "compute"}
    valid_prog_environs = ["+hpcc"]
    executable = "hpcc"
    input_name = "hpccinf.txt"
    block = 128
    declares = {
        **{metric: unit for metric, (_, unit, _) in METRICS.items()},
        "hpl_per_dgemm": "1",
        "ring_bandwidth_per_stream_copy": "1",
    }
    keep_files = ["hpccoutf.txt"]

    def input_text(self, order, grid):
        return hpl_input.hpcc([order], [self.block], grid)

    def read(self):
        return hpcc.parse(Path("hpccoutf.txt").read_text(errors="replace"))

    def examine(self, parsed):
        problems = super().examine(parsed)
        return problems + (self.solved_as_asked(parsed.facts["hpl"]) if parsed else [])

    def measure(self, parsed):
        values = {
            metric: parsed.at("value", metric=name) * factor
            for metric, (name, _, factor) in METRICS.items()
        }
        values["hpl_per_dgemm"] = values["hpl"] / (values["dgemm_star"] * self.num_tasks)
        values["ring_bandwidth_per_stream_copy"] = (
            values["ring_bandwidth"] / values["stream_copy_star"]
        )
        return values

    def peaks(self, parsed):
        dgemm = parsed.at("value", metric="StarDGEMM_Gflops") * self.num_tasks
        single_copy = parsed.at("value", metric="SingleSTREAM_Copy")
        return {
            "hpl": Peak(f"DGEMM on all {self.num_tasks} ranks, same run", dgemm),
            "dgemm_star": Peak(
                "DGEMM on one rank alone, same run", parsed.at("value", metric="SingleDGEMM_Gflops")
            ),
            "stream_copy_star": Peak("STREAM copy on one rank alone, same run", single_copy),
        }
