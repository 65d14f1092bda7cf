"""Produces streams for files, tests and benchmarks: edge lists, generated graphs, change files, count windows."""
