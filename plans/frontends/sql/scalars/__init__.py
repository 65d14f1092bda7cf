"""Scalar expressions of SQL with their types: names, functions, intervals."""
