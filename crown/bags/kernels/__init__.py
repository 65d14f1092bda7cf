"""Kernels of the generic bag: tries over tuples, and the worst-case optimal join over them."""
