"""Queries before they are plans: the algebra of front-ends, conjunctions of atoms, and their variables."""
