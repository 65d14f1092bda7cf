"""Scalar expressions of SQL: names, functions, intervals, with their types."""
