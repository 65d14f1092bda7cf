"""The search for a plan: generalized join trees, decompositions, costs, bounds and shares."""
