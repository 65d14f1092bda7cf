"""Join cores, outer joins and subqueries that ask for existence."""
