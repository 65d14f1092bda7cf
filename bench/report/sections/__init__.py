"""The sections of the report that draw more than one table."""
