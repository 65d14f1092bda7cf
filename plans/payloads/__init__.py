"""What a join core carries beside its tuples: counts of bags, and the sums that aggregates are made of."""
