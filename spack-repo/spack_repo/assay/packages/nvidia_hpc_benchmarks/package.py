# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.build_systems.bundle import BundlePackage

from spack.package import *


class NvidiaHpcBenchmarks(BundlePackage):
    """HPL, HPL-MxP, HPCG and STREAM for NVIDIA GPUs, as NVIDIA ships them: binaries under a licence
    of their own, for compute capability 8.0 and newer (not V100).

    Spack cannot fetch them. A site that has unpacked them says so under `externals`.
    """

    homepage = "https://docs.nvidia.com/nvidia-hpc-benchmarks/"

    version("25.09")
    version("25.04")

    depends_on("mpi")

    def install(self, spec, prefix):
        raise InstallError(
            "nvidia-hpc-benchmarks cannot be installed by Spack: unpack NVIDIA's release and name "
            "it under packages: nvidia-hpc-benchmarks: externals in site-config/<site>/spack"
        )

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.prepend_path("PATH", self.prefix)
