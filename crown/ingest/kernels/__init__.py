"""Kernels that read batches in Arrow's memory."""
