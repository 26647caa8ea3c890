"""Comparisons of all nodes of a machine with each other: census, sweeps, tournament."""
