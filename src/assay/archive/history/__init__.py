"""``assay history``: collects what many runs measured, shows it, and finds what changed."""
