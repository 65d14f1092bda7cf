"""Results, with constant delay or with that of the hop unions, and their change update by update."""
