"""What stands in FROM: tables, joins, windows of time, elements of arrays, constants."""
