"""Window functions: which rows a change reaches, and their values."""
