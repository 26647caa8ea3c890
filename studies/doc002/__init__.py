"""Nodes with many cores: README.md has the source, and what is measured."""
