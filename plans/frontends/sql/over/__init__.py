"""Window functions in SQL, and what keeps the first rows of an order."""
