"""Rewrites syntax of other dialects as Spark's SQL: clauses, statements, aggregates."""
