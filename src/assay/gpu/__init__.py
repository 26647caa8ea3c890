"""GPUs: their state, their paths, the programs that measure them, and their comparison."""
