"""Broadcast for streaming: docs/studies.md has the source, and what is measured."""
