"""Processes near their network device: README.md has the source, and what is measured."""
