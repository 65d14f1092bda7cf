"""Forms of other dialects that become forms of Spark's SQL: clauses, statements, aggregates."""
