"""Join cores, outer joins, and subqueries that test for existence."""
