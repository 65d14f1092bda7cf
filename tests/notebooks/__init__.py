"""The notebooks run from top to bottom."""
