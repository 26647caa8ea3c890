"""A container against the native stack: README.md says what is measured."""
