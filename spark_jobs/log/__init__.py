"""Durable files: the logs of the cells, and what Spark's checkpoint says about them."""
