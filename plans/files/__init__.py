"""Files of rows: their formats, their rows, and the types of their columns."""
