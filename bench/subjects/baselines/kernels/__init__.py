"""Kernels of the baselines."""
