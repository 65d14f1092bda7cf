"""The tables of a program: what a delete finds, keys, windows, updates by key."""
