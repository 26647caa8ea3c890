"""Runs that are kept: a session in one file, the history of years, references from many runs."""
