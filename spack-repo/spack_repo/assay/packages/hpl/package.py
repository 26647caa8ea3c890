# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.packages.hpl.package import Hpl as BuiltinHpl

from spack.package import *


class Hpl(BuiltinHpl):
    """HPL, compiled by the MPI wrapper.

    The configure script of 2.3 looks for mpi.h with the plain compiler, and finds none where the
    headers are not below <prefix>/include: Debian's Open MPI is such a case.
    """

    @when("@2.3:")
    def configure_args(self):
        return [*super().configure_args(), f"CC={self.spec['mpi'].mpicc}"]
