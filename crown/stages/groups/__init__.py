"""The group stage: GROUP BY and aggregates, from exact sums and multisets."""
