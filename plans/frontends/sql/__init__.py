"""SQL: parses queries and flattens them into the query algebra."""
