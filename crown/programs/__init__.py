"""Programs of stages, run as one transaction: their engines, what they take in, what results are asked."""
