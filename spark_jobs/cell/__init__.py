"""One cell in a Python worker: its engine, its log, and the protocol that applies every batch exactly once."""
