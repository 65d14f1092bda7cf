"""Numba kernels over one flat arena. Only the packages named ``kernels`` access the arena."""
