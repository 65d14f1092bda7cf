"""Macros: names in SQL for expressions of other functions."""
