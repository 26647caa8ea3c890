"""``assay archive``, ``certify`` and ``verify``: a run in one file, and the check of it."""
