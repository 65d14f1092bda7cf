"""Functions of dates and moments: parts, arithmetic, formats and time zones."""
