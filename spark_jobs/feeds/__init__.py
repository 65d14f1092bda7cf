"""Sources: several relations in one topic, Delta and Iceberg tables, a stream that takes over from a load."""
