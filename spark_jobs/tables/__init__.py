"""Tables that a stream keeps: of its deltas, written by the cells themselves, and of its result."""
