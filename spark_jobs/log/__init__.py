"""Durable files: the logs of the cells, and readers of Spark's checkpoint."""
