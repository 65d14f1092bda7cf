"""Collections of queries that databases are measured with, and that a package or this folder has the texts of.

`<collection>.txt` has a line for each table: its name, with `*` and how many rows it has if they are not few, and
`column:type`, with `=` and its values where only some fit, or `column>table` where the column holds keys of a table.
"""
