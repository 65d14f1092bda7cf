"""Compiled kernels: their sources, their build, and where they are kept."""
