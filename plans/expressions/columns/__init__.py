"""Functions on whole Arrow columns: numbers, decimals, texts, dates, intervals and nested values."""
