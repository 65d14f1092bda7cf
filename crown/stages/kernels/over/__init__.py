"""Kernels of window functions, over partitions of ordered trees."""
