"""Groups over joins, whose sums are formed inside the join tree."""
