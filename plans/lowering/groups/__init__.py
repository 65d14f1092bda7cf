"""Groups over joins: their sums are formed inside the join tree."""
