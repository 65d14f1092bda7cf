"""The tables of a program: decide which deletes find a row, and maintain keys, windows and updates by key."""
