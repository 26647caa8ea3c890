"""Machines that nobody prepared: what they have, and the site that is written of it."""
