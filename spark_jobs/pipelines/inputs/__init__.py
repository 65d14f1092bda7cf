"""Sources of a pipeline: how they are named, and what has changed in them."""
