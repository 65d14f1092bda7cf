"""Kernels of groups: their records, exact sums, multisets, and a batch of them in one call."""
