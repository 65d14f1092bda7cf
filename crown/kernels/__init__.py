"""Numba kernels over one flat arena. Nothing outside this package (and its siblings' ``kernels``) touches the arena."""
