"""Second opinions: programs that measure again what a program of the core has measured."""
