"""Conversions between types: which exist, how text is parsed, and how values are formatted."""
