"""What must hold of a tree engine between two batches, as checks that run."""
