"""Reads the logical plan of a query that Spark has analyzed: its JSON becomes the query algebra, without PySpark."""
