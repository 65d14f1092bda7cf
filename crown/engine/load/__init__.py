"""Bulk loads: many tuples enter a tree at once, edge by edge instead of tuple by tuple."""
