# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Stream(MakefilePackage):
    """STREAM, sustainable memory bandwidth; the C program with OpenMP, from a pinned commit.

    The builtin recipe follows the head of a branch, which no mirror can verify.
    """

    homepage = "https://www.cs.virginia.edu/stream/ref.html"
    git = "https://github.com/jeffhammond/STREAM.git"

    version("5.10-20250217", commit="6703f7504a38a8da96b353cadafa64d3c2d7a2d3")

    variant(
        "array_size",
        default="400000000",
        description="elements of each of the three arrays; four times the last-level cache or more",
    )
    variant("ntimes", default="20", description="how often each kernel runs; the best one counts")

    depends_on("c", type="build")
    depends_on("gmake", type="build")

    build_targets = ["stream_c.exe"]

    def edit(self, spec, prefix):
        size = int(spec.variants["array_size"].value)
        flags = ["-O3", self.compiler.openmp_flag]
        flags += [f"-DSTREAM_ARRAY_SIZE={size}", f"-DNTIMES={spec.variants['ntimes'].value}"]
        if 3 * 8 * size >= 2**31:
            # static arrays beyond 2 GiB do not fit the default code model of x86-64
            if spec.satisfies("target=x86_64:"):
                flags += ["-mcmodel=medium", "-fno-pie", "-no-pie"]
        makefile = FileFilter("Makefile")
        makefile.filter(r"^CC\s*=.*", f"CC = {spack_cc}")
        makefile.filter(r"^CFLAGS\s*=.*", f"CFLAGS = {' '.join(flags)}")

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        install("stream_c.exe", prefix.bin)
