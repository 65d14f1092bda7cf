"""Programs of stages, run as one transaction: engines, prepared batches, and reads of results."""
