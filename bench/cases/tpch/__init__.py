"""TPC-H: its tables as a stream, its queries as workloads."""
