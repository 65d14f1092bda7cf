"""Lowers a relation of the query algebra to a program of stages.

`lower` is the entry. Each of these modules imports only the ones after it: `outer` (reduces outer joins to inner
joins), `joins` (makes plans of join cores), `existence` (subqueries that must not multiply rows), `matches` (the
conditions that connect two sides), `stages`.
"""
