"""Translates functions of other dialects into Spark's functions."""
