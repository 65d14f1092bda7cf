"""Whole jobs: inputs, sinks, folders, progress, failures, verification."""
