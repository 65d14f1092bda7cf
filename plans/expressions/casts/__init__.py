"""Conversions between types: which there are, what text says, how values are written."""
