"""The invariants of a tree engine between two batches, as executable checks."""
