"""A cluster, or a machine, that nobody prepared: src/assay/anywhere.py says what is found, and how.

With Slurm the jobs are Slurm's, else this machine's; ASSAY_IMAGE names an image whose programs are
measured, else those of the distribution are. To begin a site of your own, copy this folder.
"""

# Stacks: system spack container contained

from assay import anywhere

site_configuration = anywhere.configuration(__file__)
