"""The readable twin of the triangle engine."""
