"""Comparisons between relations: as bands, as the best row, as slices of running sums."""
