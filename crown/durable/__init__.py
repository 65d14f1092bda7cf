"""Views whose batches survive crashes: a log of applied batches, snapshots, and recovery from both."""
