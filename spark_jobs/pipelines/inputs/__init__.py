"""Sources of a pipeline: how they are named, and how their changes are read."""
