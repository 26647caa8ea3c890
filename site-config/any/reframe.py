"""A cluster, or a machine, that nobody prepared: src/assay/describe/auto.py finds out what it has.

On a machine with Slurm, jobs run through Slurm, otherwise on the machine itself. If ASSAY_IMAGE
names an image, the programs of the image are measured, otherwise those of the distribution. To
begin a site of your own, copy this folder.
"""

# Stacks: system spack container

from assay.describe import auto

site_configuration = auto.configuration(__file__)
