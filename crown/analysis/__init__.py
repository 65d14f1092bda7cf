"""EXPLAIN of a running view: the contents and work of its stages, their hottest keys, and possible improvements."""
