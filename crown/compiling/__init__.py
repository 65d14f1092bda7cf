"""Compiled kernels: their sources, their build, and their place on disk."""
