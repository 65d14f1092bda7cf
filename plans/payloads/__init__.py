"""Payloads: counts of bags and sums of aggregates that a join core maintains beside its tuples."""
