"""The state in the arena: vertices, edges, adjacency lists and views, and their changes in O(1)."""
