"""Kernels of the stages: records of groups and of counted tuples, multisets, exact sums and their rounding."""
