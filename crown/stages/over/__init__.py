"""Window functions: which rows a change affects, and their values."""
