"""Tables of deltas: Parquet files that the cells write, a transaction per micro-batch."""
