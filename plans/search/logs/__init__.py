"""Recorded update logs: what they say about a query and its trees."""
