"""Checks the invariants of a tree engine between two batches."""
