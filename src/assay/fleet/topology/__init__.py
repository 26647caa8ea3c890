"""Switches and trunks of a network, and what the path between two nodes crosses."""
