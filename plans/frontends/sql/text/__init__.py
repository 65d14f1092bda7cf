"""SQL text: its syntax tree, the positions of its nodes, and the names of its functions."""
