"""Plans whose rows have multiplicities and sums: what publications touch, by the tree and on a recorded log."""
