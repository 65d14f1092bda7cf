"""The stages of a program: joins, groups, set operations, linear steps; its base tables and its memory."""
