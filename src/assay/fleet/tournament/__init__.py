"""Measurements of all pairs of nodes, and the faulty nodes and pairs that they show."""
