"""SQL text: its syntax tree, the places of its nodes, the names of its functions."""
