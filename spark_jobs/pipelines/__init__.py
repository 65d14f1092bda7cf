"""Pipelines: projects of many views over many tables, kept up to date by one state."""
