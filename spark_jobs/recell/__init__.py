"""Cuts the state of a stopped job into another number of cells."""
