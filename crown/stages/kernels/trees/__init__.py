"""Ordered trees of rows, with exact sums for every child."""
