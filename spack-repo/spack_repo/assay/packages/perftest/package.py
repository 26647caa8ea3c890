# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Perftest(AutotoolsPackage):
    """The RDMA community's perftest: verbs between two nodes, without MPI and without UCX.

    The last release of series 4.5, whose output the suite reads. Without GPUs: its tests measure
    the memory of the host, and a program with CUDA does not start without a driver.
    """

    homepage = "https://github.com/linux-rdma/perftest"
    git = "https://github.com/linux-rdma/perftest.git"

    version("4.5-0.20", commit="9411e12bad57fb36754e6f77b9ce92a7af1eb22a")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("rdma-core")
    depends_on("pciutils")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()
