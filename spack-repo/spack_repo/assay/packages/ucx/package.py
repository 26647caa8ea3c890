# SPDX-License-Identifier: Apache-2.0 OR MIT
from spack_repo.builtin.packages.ucx.package import Ucx as BuiltinUcx

from spack.package import *


class Ucx(BuiltinUcx):
    """UCX, with the counters that a diagnosis needs as a variant.

    With +stats, UCX_STATS_DEST and UCX_STATS_TRIGGER=exit make each process say how many bytes
    each transport carried. Counting is in the data path: never measure with it.
    """

    variant("stats", default=False, description="count bytes and operations per transport")

    def configure_args(self):
        return [*super().configure_args(), *self.enable_or_disable("stats")]
