"""Recorded update logs: what they imply for a query and its trees."""
