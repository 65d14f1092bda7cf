"""The functions of scalar expressions: a table of all functions, and their evaluation."""
