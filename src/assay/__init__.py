"""Assay: tells a site whether its cluster delivers, with evidence beside every number."""

__version__ = "1.0.0"
