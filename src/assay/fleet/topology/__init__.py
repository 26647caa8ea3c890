"""The topology of a network: its switches, its trunks, and what the path between two nodes crosses."""
