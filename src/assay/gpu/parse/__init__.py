"""Parsers, found as those of :mod:`assay.parse`."""
