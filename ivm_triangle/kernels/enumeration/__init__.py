"""Enumerates results, with constant delay or with that of the hop unions, and their changes per update."""
