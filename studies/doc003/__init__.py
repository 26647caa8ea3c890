"""Two clusters over a long link: docs/studies.md has the source, and what is measured."""
