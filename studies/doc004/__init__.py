"""Processes near their network device: docs/studies.md has the source, and what is measured."""
