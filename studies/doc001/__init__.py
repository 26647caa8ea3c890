"""Broadcast for streaming: README.md has the source, and what is measured."""
