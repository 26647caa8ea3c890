"""Scripts that run on nodes with GPUs, as those of :mod:`assay.node`."""
