"""Running triangle counts as an operator of their own."""
