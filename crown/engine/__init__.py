"""The tree engine: maintains one plan in one arena, or in several cells."""
