"""A program in several cells of one process, each with its part of the rows."""
