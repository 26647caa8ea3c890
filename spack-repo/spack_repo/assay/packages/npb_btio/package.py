# SPDX-License-Identifier: Apache-2.0 OR MIT
import os

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class NpbBtio(MakefilePackage):
    """NPB BT-IO: the block-tridiagonal solver that writes its state while it computes; and the
    other programs of NPB, which only compute.

    Builds bt.<class>.x and, for each subtype, bt.<class>.x.<suffix>. The builtin recipe npb has no
    column for the subtype and builds no BT-IO. Runs need a square number of ranks and write
    0.8 MB (S), 22 MB (W), 419 MB (A), 1.7 GB (B), 6.8 GB (C), 136 GB (D), 2.1 TB (E) into the
    working directory.
    """

    homepage = "https://www.nas.nasa.gov/software/npb.html"
    url = "https://www.nas.nasa.gov/assets/npb/NPB3.4.3.tar.gz"

    # Before 3.4.2 the offsets of class D and E overflow (upstream's Changes.log).
    version("3.4.3", sha256="a97c03d7e87ab826fba79c754415a13632c5273877abad270c85201db0f86aeb")

    #: value of `subtypes` -> what the makefile appends to the name; `plain` is BT without I/O.
    #: ("none" would be exclusive in a variant of several values.)
    suffixes = {
        "plain": "",
        "simple": ".mpi_io_simple",
        "full": ".mpi_io_full",
        "fortran": ".fortran_io",
        "epio": ".ep_io",
    }

    # Class F is refused with I/O by upstream's setparams.
    variant(
        "classes",
        default="S,W,A,B,C,D,E",
        values=("S", "W", "A", "B", "C", "D", "E"),
        multi=True,
        description="problem classes",
    )
    variant(
        "subtypes",
        default="plain,simple,full,fortran,epio",
        values=("plain", "simple", "full", "fortran", "epio"),
        multi=True,
        description="ways to write",
    )

    variant(
        "kernels",
        default="cg,ep,ft,is,lu,mg,sp",
        values=("cg", "ep", "ft", "is", "lu", "mg", "sp"),
        multi=True,
        description="programs beside BT, which is there as subtype plain",
    )

    depends_on("c", type="build")
    depends_on("fortran", type="build")
    depends_on("gmake", type="build")
    depends_on("mpi@2:")

    # npbparams.h and the objects of one build are those of the next: one after the other.
    parallel = False

    @property
    def build_directory(self):
        return join_path(self.stage.source_path, "NPB3.4-MPI")

    def edit(self, spec, prefix):
        mpi = spec["mpi"]
        flags = "-O3"
        if spec.satisfies("%fortran=gcc@10:"):
            # MPI calls with buffers of several types, through the interface of mpif.h
            flags += " -fallow-argument-mismatch"
        if spec.satisfies("target=x86_64:") and {"D", "E"} & set(spec.variants["classes"].value):
            # the arrays of few ranks of a large class pass 2 GiB
            flags += " -mcmodel=medium"
        definitions = {
            "MPIFC": mpi.mpifc,
            "FLINK": mpi.mpifc,
            "FMPI_LIB": "",
            "FMPI_INC": "",
            "FFLAGS": flags,
            "FLINKFLAGS": "$(FFLAGS)",
            "MPICC": mpi.mpicc,
            "CLINK": mpi.mpicc,
            "CMPI_LIB": "",
            "CMPI_INC": "",
            "CFLAGS": "-O3",
            "CLINKFLAGS": "$(CFLAGS)",
            "CC": spack_cc,
            "BINDIR": "../bin",
            "RAND": "randi8",
        }
        with working_dir(self.build_directory), open("config/make.def", "w") as stream:
            stream.writelines(f"{name} = {value}\n" for name, value in definitions.items())

    def programs(self):
        """Folder, arguments of make, and name of each program, in a fixed order."""
        chosen = self.spec.variants
        for name in sorted(chosen["classes"].value):
            for subtype, suffix in self.suffixes.items():
                if subtype in chosen["subtypes"].value:
                    how = [] if subtype == "plain" else [f"SUBTYPE={subtype}"]
                    yield "BT", [f"CLASS={name}", *how], f"bt.{name}.x{suffix}"
            for kernel in sorted(chosen["kernels"].value):
                yield kernel.upper(), [f"CLASS={name}"], f"{kernel}.{name}.x"

    def build(self, spec, prefix):
        with working_dir(self.build_directory):
            mkdirp("bin")
            for folder, arguments, name in self.programs():
                make("-C", folder, "clean")
                make("-C", folder, *arguments)
                if not os.path.exists(join_path("bin", name)):
                    raise InstallError(f"make ended well, but left no bin/{name}")

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        with working_dir(join_path(self.build_directory, "bin")):
            for _, _, name in self.programs():
                install(name, prefix.bin)

    def test_verification(self):
        """class S on one rank, written with MPI-IO, verifies"""
        program = join_path(self.prefix.bin, "bt.S.x.mpi_io_simple")
        if not os.path.exists(program):
            raise SkipTest("class S with subtype simple was not built")
        mpirun = which("mpirun", path=self.spec["mpi"].prefix.bin, required=True)
        output = mpirun("-n", "1", program, output=str.split, error=str.split)
        # UNSUCCESSFUL holds the word as well: the blank before it is what counts
        check_outputs(r"Verification\s+=\s+SUCCESSFUL", output)
