"""Reads and checks the user's tables, and encodes them as netted tuples."""
