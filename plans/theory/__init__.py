"""Hypergraphs of queries: acyclic, free-connex, q-hierarchical, and the widths of what is cyclic."""
