"""Hypergraphs of queries: acyclic, free-connex and q-hierarchical queries, and the widths of cyclic ones."""
