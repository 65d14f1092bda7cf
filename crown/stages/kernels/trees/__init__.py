"""Ordered trees of rows, with exact sums at every child."""
