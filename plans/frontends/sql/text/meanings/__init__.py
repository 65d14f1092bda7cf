"""What functions of other dialects mean, in Spark's functions."""
