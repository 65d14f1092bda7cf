"""From the query algebra to a program of stages.

`lower` is the entry. Below it, each sees only those after it: `outer` (outer joins to inner ones), `joins` (join cores
to plans), `existence` (subqueries that must not multiply rows), `matches` (what ties two sides), `stages`.
"""
