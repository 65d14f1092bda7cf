"""The stages of a program (joins, groups, set operations, linear stages), its base tables and its memory."""
