"""From the user's tables to netted tuples: reading, checking, coding."""
