"""Queries before planning: the algebra of the front-ends, conjunctions of atoms, and their variables."""
