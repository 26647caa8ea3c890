"""The machine in front of you: everything that can be read from the machine is read from it.

The stack is `system`, the packages of the distribution. With STACK=spack it is the stack that
`make spack SITE=debian12` built.
"""

# Stacks: system spack

from assay.describe import machine

site_configuration = machine.configuration(
    __file__,
    "this machine, with the packages of its distribution",
    machine.stack(__file__),
)
