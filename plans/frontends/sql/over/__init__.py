"""Window functions in SQL, and clauses that keep the first rows of an order."""
