"""From what a join core enumerates to the result: outputs, membership, record batches."""
