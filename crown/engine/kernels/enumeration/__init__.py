"""Enumerates deltas and results with constant delay."""
