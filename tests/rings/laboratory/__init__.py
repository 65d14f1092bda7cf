"""The sums of a regression by the laboratory's view tree: the twin of what `crown.ml` keeps in the engine."""
