"""The cells of each section, at each scale: comparisons, growth of cost, and Spark."""
