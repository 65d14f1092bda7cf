"""SQL: parsing, and flattening to the query algebra."""
