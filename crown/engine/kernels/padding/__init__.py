"""Left joins inside a join tree: rows of NULLs stand in groups without a row."""
