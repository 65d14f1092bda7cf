"""Translates the logical plan of a query that Spark has analyzed, given as JSON, into the query algebra, without
PySpark."""
