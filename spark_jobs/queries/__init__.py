"""Queries as Spark reads them: its analyzed plan, and whether two spellings are the same query."""
