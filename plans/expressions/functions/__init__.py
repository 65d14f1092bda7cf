"""The functions of scalar expressions: one table, and what evaluates them."""
