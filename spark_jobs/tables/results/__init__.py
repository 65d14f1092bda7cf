"""Tables that hold a result: Delta, Iceberg, Kafka, PostgreSQL."""
