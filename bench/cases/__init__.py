"""What is measured: data sets, streams, queries."""
