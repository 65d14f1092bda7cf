"""Maintains cyclic parts of a query as bags, each by a separate module."""
