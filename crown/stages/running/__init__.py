"""Running functions: sums over the rows before a row, whose deltas are rows or ranges."""
