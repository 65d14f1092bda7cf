"""Kernels of the tree engine: the algorithms of the paper over the arena."""
