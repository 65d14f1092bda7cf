"""Datalog: tokens, terms, heads and rules, to the query algebra."""
