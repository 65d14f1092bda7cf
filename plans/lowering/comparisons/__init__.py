"""Comparisons between relations: as bands, as the best row, and as slices of running sums."""
