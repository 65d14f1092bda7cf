"""Kernels of the tree engine: the paper's algorithms over the arena."""
