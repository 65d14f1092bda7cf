"""Converts the rows that a join core enumerates to the result: outputs, membership, record batches."""
