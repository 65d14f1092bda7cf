"""Tables that a stream maintains: a table of its deltas, written by the cells themselves, and a table of its result."""
