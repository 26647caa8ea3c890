"""How large a benchmark is: ranks, process grids, matrices, input files."""
