"""Pipeline projects in one process: what is read, what is written, what is refused."""
