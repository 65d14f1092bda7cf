"""The triangle queries on their own: how fast, in seconds, and how much work, in counted operations."""
