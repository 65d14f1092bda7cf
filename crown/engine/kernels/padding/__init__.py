"""Left joins inside a join tree: a row of NULLs replaces the missing rows of a group."""
