"""What outlives every process: the files of the cells, and what Spark's own checkpoint says about them."""
