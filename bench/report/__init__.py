"""The report: one HTML page and the same tables as markdown, from the JSON of results."""
