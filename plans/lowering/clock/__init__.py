"""Conditions on the clock."""
