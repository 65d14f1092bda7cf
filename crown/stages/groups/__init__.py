"""The group stage: computes GROUP BY and aggregates from exact sums and multisets."""
