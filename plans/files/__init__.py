"""Files of rows: what format they have, what stands in them, and which types their columns have."""
