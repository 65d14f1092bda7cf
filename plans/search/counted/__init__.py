"""Plans whose rows have multiplicities and sums: the rows that publications touch, by the tree and on a recorded
log."""
