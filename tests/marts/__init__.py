"""Marts as teams keep them with dbt, compiled: a folder for each package, with its models and the tables they read.

`tables.txt` has a line for each table: `column:kind`, with `?` where it may be NULL and the words of a text in
parentheses.
"""
