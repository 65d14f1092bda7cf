"""Slow, simple, independent ways to know the right answer: base tables, nested loops, DuckDB."""
