"""From what a join core enumerates to the result: outputs, support counts, membership, record batches."""
