"""EXPLAIN of a running view: what its stages hold and have done, their hottest keys, what could be better."""
