"""Kernels that evaluate expressions over columns of codes."""
