"""Running functions: sums of all that is before a row, whose deltas are rows or ranges."""
