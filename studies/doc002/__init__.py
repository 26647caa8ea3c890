"""Nodes with many cores: docs/studies.md has the source, and what is measured."""
