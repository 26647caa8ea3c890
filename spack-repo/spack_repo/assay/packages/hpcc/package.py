# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.packages.hpcc.package import Hpcc as BuiltinHpcc

from spack.package import *


class Hpcc(BuiltinHpcc):
    """HPC Challenge, for MPI libraries that have dropped what MPI 3.0 removed.

    Release 1.5.0 calls MPI_Type_struct and MPI_Address; Open MPI 4 and later declare neither, and
    its headers turn each call into a compile error.
    """

    def patch(self):
        super().patch()
        for source in find("hpl", "*.c", recursive=True):
            filter_file(r"\bMPI_Type_struct\b", "MPI_Type_create_struct", source)
            filter_file(r"\bMPI_Address\b", "MPI_Get_address", source)
