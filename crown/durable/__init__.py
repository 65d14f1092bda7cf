"""Views whose batches survive crashes: a log of what was applied, snapshots, and the rules by which they are read."""
