"""Functions of numbers and their bits."""
