"""Scripts that run on all nodes at once; they import those of :mod:`assay.node`, too."""
