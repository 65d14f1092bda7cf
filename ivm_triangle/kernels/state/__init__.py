"""What a state is in the arena: vertices, edges, adjacency lists and views, and how they change in O(1)."""
