"""Two clusters over a long link: README.md has the source, and what is measured."""
