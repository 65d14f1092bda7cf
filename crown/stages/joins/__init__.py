"""Joins as stages of a program: join cores, joins by a comparison, cyclic counts, scalar subqueries."""
