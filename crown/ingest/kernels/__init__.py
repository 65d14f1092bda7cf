"""Kernels that read batches where Arrow keeps them."""
