# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.build_systems.bundle import BundlePackage

from spack.package import *


class AssaySuite(BundlePackage):
    """All programs of one acceptance stack, as one spec.

    ~cuda is what every node can start. +cuda is what needs libcuda.so.1 to start at all, and so
    belongs into an environment of its own on the GPU nodes.
    """

    version("1")

    variant("cuda", default=False, description="programs for GPU nodes instead of those for all")

    with when("~cuda"):
        depends_on("osu-micro-benchmarks~cuda", type="run")
        depends_on("intel-mpi-benchmarks", type="run")
        depends_on("mpigraph", type="run")
        depends_on("fabtests", type="run")
        depends_on("hpl", type="run")
        depends_on("hpcc", type="run")
        depends_on("hpcg", type="run")
        depends_on("stream", type="run")
        depends_on("npb-btio", type="run")
        depends_on("ior", type="run")
        depends_on("iozone", type="run")
        depends_on("fio", type="run")
        depends_on("perftest", type="run")
    with when("+cuda"):
        depends_on("osu-micro-benchmarks+cuda", type="run")
        depends_on("nccl-tests+cuda+mpi", type="run")
        depends_on("nvbandwidth", type="run")
        depends_on("babelstream+cuda", type="run")
