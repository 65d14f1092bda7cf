"""Translates motifs, GraphFrames' language of graph patterns, into the query algebra.

>>> from plans.frontends.motif import patterns
>>> [branch.terms[0].name for branch in patterns.read("(a)-[e*1..2]->(b)")]
['_e1', '_e1']
"""
