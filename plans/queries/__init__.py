"""What a query says, before it is a plan: the algebra of front-ends, conjunctions of atoms, and their variables."""
