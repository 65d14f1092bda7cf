"""Which cells make up each section, at each scale: what is compared with whom, how cost grows, and Spark."""
