"""Time in queries: lengths of time, windows of relations, and the clock."""
