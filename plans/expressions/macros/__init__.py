"""Names of SQL for expressions of other functions."""
