"""The memory of an engine: one arena, with hash tables, lists and records in it."""
