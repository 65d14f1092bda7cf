"""Payloads: the counts of bags and the sums of aggregates that a join core maintains beside its tuples."""
