"""Bulk loads: many tuples are inserted into a tree edge by edge instead of tuple by tuple."""
