"""A machine with Debian 12 and no cluster: the stack `spack` on one node, without a scheduler."""

# Stacks: spack

from pathlib import Path

from assay.describe import machine
from assay.sites import stacks

LOCK = Path(__file__).resolve().parent / "spack/env/spack.lock"

site_configuration = machine.configuration(
    __file__,
    "one machine with Debian 12, with the programs that Spack built",
    stacks.spack(__file__, LOCK),
    release="debian 12",
)
