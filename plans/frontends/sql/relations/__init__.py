"""The relations of FROM: tables, joins, time windows, elements of arrays, constants."""
