"""Enumeration of deltas and results with constant delay."""
