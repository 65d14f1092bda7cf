"""From the query algebra to a program of stages."""
