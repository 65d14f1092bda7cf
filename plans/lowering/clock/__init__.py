"""Conditions that read the clock."""
