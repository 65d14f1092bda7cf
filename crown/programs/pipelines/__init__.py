"""Batches that are one native call: the programs that have them, and what comes before and behind the call."""
