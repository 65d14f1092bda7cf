"""The tree engine: one plan, kept up to date in one arena or in several cells."""
