"""A cluster, or a machine, that nobody prepared: src/assay/sites/auto.py finds out what it has.

With Slurm the jobs are Slurm's, else this machine's; ASSAY_IMAGE names an image whose programs are
measured, else those of the distribution are. To begin a site of your own, copy this folder.
"""

# Stacks: system spack container contained

from assay.sites import auto

site_configuration = auto.configuration(__file__)
