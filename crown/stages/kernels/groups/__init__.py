"""Kernels of groups: records, exact sums, multisets, and a whole batch in one call."""
