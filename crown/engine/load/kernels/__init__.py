"""Kernels of bulk loads: tables, groups and lists of one edge after the other."""
