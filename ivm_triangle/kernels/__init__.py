"""Numba kernels of the triangle queries, over the same arena and tables as the engine."""
