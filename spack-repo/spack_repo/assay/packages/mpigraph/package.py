# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.packages.mpigraph.package import Mpigraph as BuiltinMpigraph

from spack.package import *


class Mpigraph(BuiltinMpigraph):
    """mpiGraph, bandwidth between every pair of nodes, from a pinned commit.

    Upstream has no releases, and the builtin recipe follows a branch.
    """

    version("20210824", commit="5f6cbd9883f0204cc65ee5205f35518eab704ba7")

    depends_on("c", type="build")
