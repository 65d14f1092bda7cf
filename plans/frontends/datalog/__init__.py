"""Datalog: tokens, terms, heads and rules, translated into the query algebra."""
