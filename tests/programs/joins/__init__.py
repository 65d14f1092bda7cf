"""What programs leave to the join tree: existence, sums, the relations that it stores whole."""
