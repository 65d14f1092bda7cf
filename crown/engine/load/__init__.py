"""Loads many tuples into a tree edge by edge instead of tuple by tuple."""
