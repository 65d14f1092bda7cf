"""The triangle queries alone: their speed, in seconds, and their work, in counted operations."""
