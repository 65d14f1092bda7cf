"""Files that a release wrote, and that the next one must open."""
